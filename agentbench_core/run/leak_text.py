"""What of a task no agent may see, as text that can be looked for: canaries, and lines that stand nowhere else."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import attrs

from agentbench_core.errors import ToolError
from agentbench_core.inputs.suite import Task
from agentbench_core.run.preparation import hidden_paths
from agentbench_core.workspace.tree import Tree

SHORTEST = 40
"""Characters of a line that hardly anybody writes twice."""
ENOUGH = 3
"""Such lines that are no coincidence any more."""

_LONGEST = 1000  # characters of a line; others are data
_MOST = 5000  # lines per file
_LETTERS = 12  # different characters
_COMMENTS = ("#", "//", "/*", "*", "--", "<!--", ";", "%")
_CANARY = re.compile(r"agentbench-canary:[ \t]{0,8}([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)

_FILE_BYTES = 4 << 20
_TREE_BYTES = 256 << 20
_TREE_FILES = 50_000


@attrs.frozen(kw_only=True)
class SecretText:
    """A text by where it comes from, as its distinctive lines in their order."""

    where: str
    lines: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Secrets:
    """What no agent may see. ``canaries`` say where each comes from; they are in small letters."""

    canaries: Mapping[str, str]
    tests: tuple[SecretText, ...]
    oracle: SecretText

    @property
    def texts(self) -> tuple[SecretText, ...]:
        """Tests and oracle, where they have lines to look for."""
        return tuple(text for text in (*self.tests, self.oracle) if text.lines)


def secrets_of(task: Task) -> Secrets:
    """The secrets of a task: its hidden tests, and what its oracle adds and does not merely move."""
    canaries: dict[str, str] = {}
    tests = []
    for path, file in zip(hidden_paths(task), task.hidden, strict=True):
        text = file.data.decode("utf-8", "backslashreplace")
        canaries |= {name.lower(): path for name in _CANARY.findall(text)}
        tests.append(SecretText(where=path, lines=_distinctive(text.splitlines())))
    solution = [text for call in task.script for text in texts_in(call.arguments)]
    for text in solution:
        canaries |= {name.lower(): "the oracle" for name in _CANARY.findall(text)}
    lines = [line for text in solution for line in _added(text)]
    return Secrets(
        canaries=canaries,
        tests=tuple(tests),
        oracle=SecretText(where="the oracle", lines=_distinctive(lines)),
    )


def texts_in(value: object) -> Iterator[str]:
    """All texts in plain data, in their order, however deep it is."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            rest.extend(reversed(list(value.values())))
        elif isinstance(value, (list, tuple)):
            rest.extend(reversed(value))


def canaries_in(text: str, known: Collection[str]) -> set[str]:
    """Those of the known canaries that stand in a text."""
    return {found for match in _UUID.finditer(text) if (found := match.group().lower()) in known} if known else set()


class Lines:
    """Lines that are looked for in texts, also behind whatever a tool puts before a line."""

    def __init__(self, lines: Collection[str]) -> None:
        self._by_end: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            ends = self._by_end[line[-SHORTEST:]]
            if len(ends) < 8 and line not in ends:
                ends.append(line)

    def found(self, text: str) -> Iterator[str]:
        """Each line that stands in the text, as often as it does. Time is proportional to the text."""
        if not self._by_end:
            return
        for line in text.splitlines():
            for piece in (line, *line.split("\\n")) if "\\n" in line else (line,):  # as a literal has it
                end = piece.rstrip()
                for each in self._by_end.get(end[-SHORTEST:], ()):
                    if end.endswith(each):
                        yield each


def found_in(tree: Tree, lines: Lines) -> Iterator[tuple[str, set[str]]]:
    """Which lines stand in which files of a tree; what is left out of too large ones is not looked at."""
    room = _TREE_BYTES
    for number, path in enumerate(tree.files()):
        if number >= _TREE_FILES or room <= 0:
            return
        try:
            data = tree.read(path, limit=min(_FILE_BYTES, room))
        except (ToolError, OSError):
            continue
        room -= len(data)
        found = set(lines.found(data.decode("utf-8", "backslashreplace")))
        if found:
            yield path, found


def _distinctive(lines: Collection[str]) -> tuple[str, ...]:
    stripped = (line.strip() for line in lines)
    kept = dict.fromkeys(line for line in stripped if _is_distinctive(line))
    return tuple(kept)[:_MOST]


def _is_distinctive(line: str) -> bool:
    if not SHORTEST <= len(line) <= _LONGEST or line.startswith(_COMMENTS):
        return False
    return line.isprintable() and len(set(line)) >= _LETTERS


def _added(text: str) -> Iterator[str]:
    """The lines of a text; of a diff, those that it adds and does not take away elsewhere."""
    lines = text.splitlines()
    if not any(line.startswith("@@ ") for line in lines):
        yield from lines
        return
    gone = {line[1:].strip() for line in lines if line.startswith("-")}
    for line in lines:
        if line.startswith("+") and not line.startswith("+++ ") and line[1:].strip() not in gone:
            yield line[1:]
