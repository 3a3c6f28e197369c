"""A task with accepted assertions: first as a copy, which is validated, and then in its own directory."""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import InputError
from agentbench_core.harness import TASK_FILE, Task, hidden_paths, parse_yaml, read_task, replace_text
from agentbench_tasks.expected_tests import with_lists, with_passing_command
from agentbench_tasks.strengthen.command_line import with_file
from agentbench_tasks.strengthen.finding import MARK
from agentbench_tasks.strengthen.module import Module, parse
from agentbench_tasks.strengthen.proposals import Proposal

_HEADER = """\
# agentbench-canary: {canary}
{mark} other inputs for the calls in {beside}, with values of the reference
# solution. The author confirmed that the description or the documentation specifies them.
"""


@attrs.frozen(kw_only=True)
class Addition:
    """A new hidden test file with accepted assertions."""

    path: str  #: relative to the directory of hidden tests
    text: str
    tests: tuple[str, ...]  #: ids of its tests
    file: str  #: path in the workspace
    beside: str  #: path of the hidden test file whose calls it repeats


def additions(task: Task, accepted: Sequence[Proposal]) -> Sequence[Addition]:
    """The new test files for accepted proposals: one beside each test file whose calls they repeat."""
    made = []
    taken = {file.path for file in task.hidden}
    for path, file in zip(hidden_paths(task), task.hidden, strict=True):
        mine = [proposal for proposal in accepted if proposal.call.file == path]
        if not mine:
            continue
        name = next(name for name in _names(file.path) if name not in taken)
        new = posixpath.join(posixpath.dirname(path), posixpath.basename(name))
        module = Module(parse(file.data.decode("utf-8", "replace")))
        prelude = module.needed({name for proposal in mine for name in proposal.call.names})
        header = _HEADER.format(mark=MARK, canary=uuid.uuid4(), beside=posixpath.basename(path))
        text = "\n\n".join([f"{header}{prelude}\n", *(proposal.code for proposal in mine)])
        tests = tuple(f"{new}::{proposal.name}" for proposal in mine)
        made.append(Addition(path=name, text=text, tests=tests, file=new, beside=path))
    return made


def _names(path: str) -> Iterator[str]:
    """Names for a new test file, in the same style as the name of an existing one."""
    directory, base = posixpath.split(path)
    stem = base.removesuffix(".py")
    plain = stem.removeprefix("test_").removesuffix("_test")
    for number in range(1, 1000):
        ending = "" if number == 1 else f"_{number}"
        is_suffix = stem.endswith("_test") and not stem.startswith("test_")
        name = f"strengthened_{plain}{ending}_test.py" if is_suffix else f"test_strengthened_{plain}{ending}.py"
        yield posixpath.join(directory, name)


def new_text(task: Task, added: Sequence[Addition], lists: Mapping[str, Sequence[str]]) -> str:
    """The text of task.yaml with the new tests. ``lists`` are its expected tests without them.

    Raises InputError if the layout of the file has no place for them.
    """
    where = str(task.directory / TASK_FILE)
    expected = parse_yaml(task.text, where)
    tests = [test for addition in added for test in addition.tests]
    new_lists = {**lists, "fail_to_pass": [*lists["fail_to_pass"], *tests]}
    command = task.spec.validation.passing_command
    for addition in added:
        command = with_file(command, addition.file, addition.beside)
    text = with_lists(task.text, new_lists, where)
    if command != task.spec.validation.passing_command:
        text = with_passing_command(text, command)
        expected["validation"]["passing_command"] = command
    expected["validation"] |= {name: list(names) for name, names in new_lists.items()}
    if parse_yaml(text, where) != expected:
        raise InputError(f"{where}: cannot add the new tests", remedy="Write `validation` in plain YAML block style.")
    return text


def staged(task: Task, into: Path, text: str, added: Sequence[Addition] = ()) -> Task:
    """A copy of a task in another directory, with a different task.yaml and additional hidden tests."""
    directory = into / task.spec.id
    _write(directory / TASK_FILE, text)
    hidden = directory / task.spec.validation.files
    for file in task.hidden:
        path = hidden / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o755 if file.executable else 0o644)
    for addition in added:
        _write(hidden / addition.path, addition.text)
    for name in filter(None, (task.spec.oracle.patch, task.spec.oracle.script)):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((task.directory / name).read_bytes())
    copy = read_task(directory)
    url = task.directory / copy.spec.repo.url
    if not url.exists():
        return copy
    repo = attrs.evolve(copy.spec.repo, url=str(url.resolve()))
    return attrs.evolve(copy, spec=attrs.evolve(copy.spec, repo=repo))


def apply(task: Task, text: str, added: Sequence[Addition]) -> Sequence[Path]:
    """Write the new test files and task.yaml, and return their paths. If that fails, all changes are undone.

    Raises InputError if the task has changed since it was read, or a file cannot be written.
    """
    target = task.directory / TASK_FILE
    current = read_task(task.directory)
    if current.text != task.text or current.digest != task.digest or current.script != task.script:
        raise InputError(f"{target.parent} changed while the task was being validated", remedy="Start again.")
    written: list[Path] = []
    try:
        for addition in added:
            path = task.directory / task.spec.validation.files / addition.path
            written.append(path)
            replace_text(path, addition.text)
        replace_text(target.resolve(), text)
    except BaseException:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    return [*written, target]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
