"""The secrets of a task as searchable text: canaries, and lines that occur nowhere else."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterator, Mapping

import attrs

from agentbench_core import Audit, ToolError, Tree

SHORTEST = 40
"""Minimum length of a line that is unlikely to be written twice by chance."""
ENOUGH = 3
"""Minimum number of matching lines that is not a coincidence."""

_LONGEST = 1000  # characters of a line; longer ones are data
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
    """The distinctive lines of a text, in order, with its origin."""

    where: str
    lines: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Secrets:
    """Secrets that agents must not see. ``canaries`` maps each lowercase canary to its origin."""

    canaries: Mapping[str, str]
    tests: tuple[SecretText, ...]
    oracle: SecretText

    @property
    def texts(self) -> tuple[SecretText, ...]:
        """Tests and the reference solution, if they have distinctive lines."""
        return tuple(text for text in (*self.tests, self.oracle) if text.lines)


def secrets_of(audit: Audit, public: Tree) -> Secrets:
    """The secrets of a task: its hidden tests, and lines that the reference solution adds and does not merely move.

    A hidden file may be a copy of a public one. Its lines are ignored if all are in the file at the same path
    in ``public``, and canaries in that file are ignored.
    """
    canaries: dict[str, str] = {}
    known: set[str] = set()
    tests = []
    for path, data in audit.hidden_files.items():
        text = _text(data)
        canaries |= {name.lower(): path for name in _CANARY.findall(text)}
        lines = _distinctive(text.splitlines())
        public_text = _text(data_at(public, path, at_least=len(data)) or b"")
        known |= canaries_in(public_text, canaries)
        public_too = set(Lines(lines).matches(public_text)).issuperset(lines)
        tests.append(SecretText(where=path, lines=() if public_too else lines))
    solution = [text for call in audit.solution for text in texts_in(call.arguments)]
    for text in solution:
        canaries |= {name.lower(): "the oracle" for name in _CANARY.findall(text)}
    added = [line for text in solution for line in _added(text)]
    return Secrets(
        canaries={name: where for name, where in canaries.items() if name not in known},
        tests=tuple(tests),
        oracle=SecretText(where="the oracle", lines=_distinctive(added)),
    )


def new_paths(hidden_files: Collection[str], public: Tree) -> tuple[str, ...]:
    """Paths of hidden tests that are not copies of public files: paths that an agent cannot know."""
    existing = frozenset(public.files()) if hidden_files else frozenset()
    return tuple(path for path in hidden_files if path not in existing)


def data_at(public: Tree, path: str, *, at_least: int) -> bytes | None:
    """The content at a path, up to 4 MiB or ``at_least`` + 1 bytes, whichever is more; ``None`` without a file."""
    try:
        return public.read(path, limit=max(_FILE_BYTES, at_least + 1))
    except (ToolError, OSError):
        return None


def texts_in(value: object) -> Iterator[str]:
    """All strings in plain data, in order, however deeply nested."""
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
    """The known canaries in a text."""
    return {result for match in _UUID.finditer(text) if (result := match.group().lower()) in known} if known else set()


class Lines:
    """Lines to find in text, even after a prefix that a tool adds to each line.

    They are stored reversed and sorted. All lines that a text ends with are then found by binary search: the last line
    that does not sort after the text, the longest line that this one begins with, and so on, however many lines share
    the same end.
    """

    def __init__(self, lines: Collection[str]) -> None:
        self._backwards = sorted({line[::-1] for line in lines if line})
        self._shortest = min(map(len, self._backwards), default=0)
        self._longest = max(map(len, self._backwards), default=0)
        self._ends = frozenset(line[: self._shortest] for line in self._backwards)
        self._within: list[int] = []
        """For each reversed line, the index of the longest other line that it begins with, or -1."""
        begun: list[int] = []
        for index, line in enumerate(self._backwards):
            while begun and not line.startswith(self._backwards[begun[-1]]):
                begun.pop()
            self._within.append(begun[-1] if begun else -1)
            begun.append(index)

    def matches(self, text: str) -> Iterator[str]:
        """Each line in the text, as often as it occurs. Takes linear time."""
        if not self._backwards:
            return
        for line in text.splitlines():
            for piece in (line, *line.split("\\n")) if "\\n" in line else (line,):  # as in a string literal
                yield from self._ending(piece.rstrip())

    def _ending(self, text: str) -> Iterator[str]:
        backwards = text[-self._longest :][::-1]
        if backwards[: self._shortest] not in self._ends:
            return
        index = bisect.bisect_right(self._backwards, backwards) - 1
        while index >= 0:
            if backwards.startswith(self._backwards[index]):
                yield self._backwards[index][::-1]
            index = self._within[index]


def lines_by_file(tree: Tree, lines: Lines) -> Iterator[tuple[str, set[str]]]:
    """Each file of a tree that contains lines, with those lines. Only parts of large files and trees are searched."""
    remaining = _TREE_BYTES
    for number, path in enumerate(tree.files()):
        if number >= _TREE_FILES or remaining <= 0:
            return
        try:
            data = tree.read(path, limit=min(_FILE_BYTES, remaining))
        except (ToolError, OSError):
            continue
        remaining -= len(data)
        results = set(lines.matches(_text(data)))
        if results:
            yield path, results


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _distinctive(lines: Collection[str]) -> tuple[str, ...]:
    stripped = (line.strip() for line in lines)
    retained = dict.fromkeys(line for line in stripped if _is_distinctive(line))
    return tuple(retained)[:_MOST]


def _is_distinctive(line: str) -> bool:
    if not SHORTEST <= len(line) <= _LONGEST or line.startswith(_COMMENTS):
        return False
    return line.isprintable() and len(set(line)) >= _LETTERS


def _added(text: str) -> Iterator[str]:
    """The lines of a text or, for a diff, the lines that it adds and does not remove elsewhere."""
    lines = text.splitlines()
    if not any(line.startswith("@@ ") for line in lines):
        yield from lines
        return
    removed = {line[1:].strip() for line in lines if line.startswith("-")}
    for line in lines:
        if line.startswith("+") and not line.startswith("+++ ") and line[1:].strip() not in removed:
            yield line[1:]
