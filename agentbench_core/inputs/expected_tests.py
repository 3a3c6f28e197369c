"""Write the tests that a task expects into its task.yaml, and change nothing else in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import yaml

from agentbench_core.errors import InputError
from agentbench_core.inputs.documents import parse_yaml, replace_text
from agentbench_core.inputs.suite import TASK_FILE, Task

_AFTER = "passing_command"  # required, so it is always there


def write_expected_tests(task: Task, lists: Mapping[str, Sequence[str]]) -> None:
    """Fill ``fail_to_pass`` and ``pass_to_pass`` of a task that has neither.

    Comments, order and quoting stay as they are. The file is replaced as a whole or not at all.

    Raises:
        InputError: the file has changed since the task was read, cannot be written, or is written in a way that
            leaves no place for lists.
    """
    path = (task.directory / TASK_FILE).resolve()
    filled = {name: list(tests) for name, tests in lists.items() if tests}
    text = with_lists(task.text, filled, str(path))
    expected = parse_yaml(task.text, str(path))
    expected["validation"] |= filled
    if parse_yaml(text, str(path)) != expected:
        raise InputError(f"{path}: found no place for the lists of tests", remedy="Write `validation` as plain lines.")
    if path.read_bytes() != task.text.encode():
        raise InputError(f"{path} was changed while the task was validated", remedy="Validate it again.")
    replace_text(path, text)


@attrs.frozen
class _Edit:
    start: int
    end: int
    text: str


def with_lists(text: str, lists: Mapping[str, Sequence[str]], where: str) -> str:
    """The text with the lists under ``validation``: where an empty one stands, or after the passing command."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "it has been read as a task"
    validation = next(value for key, value in root.value if key.value == "validation")
    if validation.flow_style:
        raise InputError(f"{where}: validation is written in braces", remedy="Write it as lines, one for each field.")
    indent = " " * validation.value[0][0].start_mark.column
    places = {key.value: (key, value) for key, value in validation.value}
    edits: list[_Edit] = []
    for name, tests in lists.items():
        items = "".join(f"\n{indent}  - {_quoted(test)}" for test in tests)
        if name in places:  # an empty list: its brackets go, what follows on the line stays
            key, value = places[name]
            edits.append(_Edit(key.end_mark.index, value.end_mark.index, ":"))
            end = _end_of_line(text, value.end_mark.index)
            edits.append(_Edit(end, end, items))
        else:
            end = _end_of_line(text, places[_AFTER][1].end_mark.index)
            edits.append(_Edit(end, end, f"\n{indent}{name}:{items}"))
    edits.sort(key=lambda edit: edit.start)
    for edit in reversed(edits):  # from the end, so that places stay right
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _end_of_line(text: str, index: int) -> int:
    """Where the line ends that has the last character before ``index``; a block ends before the line after it."""
    last = len(text[:index].rstrip())
    end = text.find("\n", last)
    return len(text) if end < 0 else end


def _quoted(test: str) -> str:
    return yaml.dump(test, default_style='"', width=float("inf"), allow_unicode=True).rstrip("\n")
