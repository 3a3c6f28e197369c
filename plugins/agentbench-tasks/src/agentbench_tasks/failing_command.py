"""Check that the failing command only names tests that agents can see."""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping

from agentbench_core import ToolError, Tree, name_some
from agentbench_core.harness import Task, hidden_paths
from agentbench_tasks.rules import Note

_REMEDY = (
    "Make failing_command run public tests only, such as the whole public suite. Verdicts depend on the hidden "
    "tests in any case: list them in fail_to_pass."
)
_LONGEST = 4 << 20  # maximum size of a file that is searched for tests


def notes_on(task: Task, public: Tree) -> tuple[Note, ...]:
    """A note if the failing command names hidden tests that are not in the repository."""
    hidden = {path: file.data for path, file in zip(hidden_paths(task), task.hidden, strict=True)}
    absent = list(dict.fromkeys(_absent(task, hidden, public))) if hidden else []
    if not absent:
        return ()
    what = f"{name_some(absent)} {'is' if len(absent) == 1 else 'are'} not in the agent's workspace"
    return (Note(reason=f"agents can never make failing_command pass: {what}", remedy=_REMEDY),)


def _absent(task: Task, hidden: Mapping[str, bytes], public: Tree) -> Iterator[str]:
    files = frozenset(public.files())
    for word in _words(task.spec.validation.failing_command):
        named, *parts = word.removeprefix(f"{task.spec.environment.workdir}/").split("::")
        path = posixpath.normpath(named) if named else ""
        if path in files:
            new = [part for part in parts if _only_in(part.partition("[")[0], hidden.get(path), public, path)]
            yield from [f"{path}::{'::'.join(parts)}"] if new else []
        elif path in hidden or (_any_below(path, hidden) and not _any_below(path, files)):
            yield path


def _words(command: str) -> Iterator[str]:
    """The words of a command, and the part after ``=`` of each word that contains one."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    for word in itertools.chain.from_iterable(re.split(r"[;&|()\s]+", word) for word in words):
        yield word
        if "=" in word.partition("::")[0]:
            yield word.partition("=")[2]


def _any_below(path: str, files: Mapping[str, object] | frozenset[str]) -> bool:
    return any(file.startswith(f"{path}/") for file in files)


def _only_in(name: str, hidden: bytes | None, public: Tree, path: str) -> bool:
    """Whether the hidden file defines a test or test class that the public file does not."""
    if hidden is None:
        return False
    definition = re.compile(rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+%b\b" % re.escape(name.encode()), re.MULTILINE)
    return bool(definition.search(hidden)) and not definition.search(_beginning(public, path))


def _beginning(public: Tree, path: str) -> bytes:
    try:
        return public.read(path, limit=_LONGEST)
    except (ToolError, OSError):
        return b""
