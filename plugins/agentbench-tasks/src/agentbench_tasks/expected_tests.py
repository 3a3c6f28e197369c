"""Write the expected tests into task.yaml without changing anything else in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import yaml

from agentbench_core import InputError
from agentbench_core.harness import TASK_FILE, Task, parse_yaml, replace_text

_AFTER = "passing_command"  # required, so always present


def write_expected_tests(task: Task, lists: Mapping[str, Sequence[str]]) -> str:
    """Replace the current ``fail_to_pass`` and ``pass_to_pass`` lists, and return a summary of the change.

    Existing names keep their order, and new ones are appended. Comments elsewhere, order and quoting are preserved.
    The file is written atomically. If nothing changes, it is not written, and the summary is empty.

    Raises:
        InputError: the file has changed since the task was read, is not writable, or has a layout without a place for
            the lists.
    """
    path = (task.directory / TASK_FILE).resolve()
    expected = parse_yaml(task.text, str(path))
    before = {name: list(expected["validation"].get(name, ())) for name in lists}
    after = {name: _in_order(before[name], tests) for name, tests in lists.items()}
    changed = {name: tests for name, tests in after.items() if tests != before[name]}
    if not changed:
        return ""
    text = with_lists(task.text, changed, str(path))
    expected["validation"] |= changed
    if parse_yaml(text, str(path)) != expected:
        raise InputError(f"{path}: cannot add the tests", remedy="Write `validation` in plain YAML block style.")
    if path.read_bytes() != task.text.encode():
        raise InputError(f"{path} changed while the task was being validated", remedy="Validate the task again.")
    replace_text(path, text)
    return ", ".join(_difference(name, before[name], tests) for name, tests in after.items())


def _in_order(before: Sequence[str], after: Sequence[str]) -> list[str]:
    wanted = set(after)
    return list(dict.fromkeys([*(test for test in before if test in wanted), *after]))


def _difference(name: str, before: Sequence[str], after: Sequence[str]) -> str:
    """A summary such as ``fail_to_pass: 12 (3 new, 1 removed)``."""
    new, removed = len(set(after) - set(before)), len(set(before) - set(after))
    message = ", ".join([*([f"{new} new"] if new else []), *([f"{removed} removed"] if removed else [])])
    return f"{name}: {len(after)}{f' ({message})' if message and before else ''}"


@attrs.frozen
class _Edit:
    start: int
    end: int
    text: str


def with_lists(text: str, lists: Mapping[str, Sequence[str]], where: str) -> str:
    """The text with the lists under ``validation``, replacing existing lists or following the passing command."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "the task file must be valid"
    validation = next(value for key, value in root.value if key.value == "validation")
    if validation.flow_style:
        raise InputError(
            f"{where}: cannot add the tests: `validation` is written in YAML flow style ({{...}})",
            remedy="Write one field per line.",
        )
    indent = " " * validation.value[0][0].start_mark.column
    fields = {key.value: (key, value) for key, value in validation.value}
    edits: list[_Edit] = []
    for name, tests in lists.items():
        items = "".join(f"\n{indent}  - {_quoted(test)}" for test in tests)
        if name not in fields:
            end = _end_of_line(text, fields[_AFTER][1].end_mark.index)
            edits.append(_Edit(end, end, f"\n{indent}{name}:{items or ' []'}"))
        elif fields[name][1].flow_style:  # replace its brackets, keep the rest of the line
            key, value = fields[name]
            edits.append(_Edit(key.end_mark.index, value.end_mark.index, ":" if tests else ": []"))
            end = _end_of_line(text, value.end_mark.index)
            edits.append(_Edit(end, end, items))
        else:
            edits += _in_block(text, *fields[name], tests)
    edits.sort(key=lambda edit: edit.start)
    for edit in reversed(edits):  # from the end, so that earlier positions stay valid
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def with_passing_command(text: str, command: str) -> str:
    """The text with another passing command."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "the task file must be valid"
    validation = next(value for key, value in root.value if key.value == "validation")
    value = next(value for key, value in validation.value if key.value == _AFTER)
    start, end = value.start_mark.index, value.end_mark.index
    if value.style in ("|", ">"):  # the value ends before the line break of its last line
        end = len(text[:end].rstrip())
    return text[:start] + _quoted(command) + text[end:]


def _in_block(text: str, key: yaml.Node, value: yaml.SequenceNode, tests: Sequence[str]) -> Iterator[_Edit]:
    """Yield edits that replace all items of a list. Existing items keep their notation."""
    first, last = value.start_mark.index, _end_of_line(text, value.value[-1].end_mark.index)
    if not tests:
        colon = text.index(":", key.end_mark.index) + 1
        yield _Edit(colon, colon, " []")
        yield _Edit(text.rindex("\n", 0, first), last, "")
        return
    written = {
        item.value: text[item.start_mark.index : item.end_mark.index]
        for item in value.value
        if item.start_mark.line == item.end_mark.line
    }
    indent = " " * value.start_mark.column
    yield _Edit(first, last, f"\n{indent}".join(f"- {written.get(test) or _quoted(test)}" for test in tests))


def _end_of_line(text: str, index: int) -> int:
    """The end of the line that contains the last character before ``index``; a block ends before the next line."""
    last = len(text[:index].rstrip())
    end = text.find("\n", last)
    return len(text) if end < 0 else end


def _quoted(test: str) -> str:
    return yaml.dump(test, default_style='"', width=float("inf"), allow_unicode=True).rstrip("\n")
