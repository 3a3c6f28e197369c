"""The text of an attempt, truncated to a limited size. Truncated text has a note and the path to the full text."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from agentbench_core import RunView

MAX_BYTES = 256 << 10
"""The maximum size of one text, in bytes."""
PAGE_MAX_BYTES = 4 << 20
"""Once an attempt's text exceeds this many bytes, later pieces are truncated to ``SHORT``."""
SHORT = 4 << 10

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_LEFT_OUT = re.compile(rb"\n\[\.\.\. (\d+) bytes left out")
_ADDED, _REMOVED, _PLACE, _HEAD, _SAME = "add", "del", "hunk", "head", "same"
CHANGED = (_ADDED, _REMOVED)
"""The kinds of blocks of a diff with changed lines."""
_HEADS = (
    "diff ",
    "index ",
    "--- ",
    "+++ ",
    "new file",
    "deleted file",
    "old mode",
    "new mode",
    "rename ",
    "similarity ",
)


@attrs.frozen(kw_only=True)
class Text:
    """A displayed text."""

    text: str
    left_out: int = 0
    """The number of bytes removed from the middle."""
    path: str = ""
    """The path to the full text, relative to the run directory; may be empty if nothing was removed."""

    @property
    def is_diff(self) -> bool:
        """Whether the text starts like a unified diff."""
        return self.text.startswith(("--- ", "diff --git "))

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.removesuffix("\n").count("\n") + 1 if self.text else 0

    @property
    def height(self) -> int:
        """The number of lines on a page with 100 characters per line."""
        return sum(1 + len(line) // 100 for line in self.text.removesuffix("\n").split("\n")) if self.text else 0

    def diff_blocks(self) -> Sequence[tuple[str, str]]:
        """CSS class and text of each block of similar lines of a unified diff."""
        return list(_blocks(self.text))


@attrs.define
class Texts:
    """The text of one attempt, limited in total size."""

    view: RunView
    task_id: str
    repeat: int
    used: int = 0

    def path(self, name: str) -> str:
        """The path of a file of the attempt, relative to the run directory."""
        repeat = "" if self.repeat == 1 else f"@{self.repeat}"
        return f"tasks/{self.task_id}{repeat}/{name}"

    def file(self, name: str) -> Text | None:
        """A file of the attempt; ``None`` if it does not exist. Invalid UTF-8 is shown as ``\\xNN``."""
        limit = self._limit()
        data = self.view.file(self.task_id, self.repeat, name, at_most=limit)
        if data is None:
            return None
        self.used += len(data)
        cut = _LEFT_OUT.match(data, limit // 2) if len(data) > limit else None
        left_out = int(cut[1]) if cut else 0
        return Text(text=data.decode("utf-8", "backslashreplace"), left_out=left_out, path=self.path(name))

    def excerpt(self, text: str, name: str, at_most: int = MAX_BYTES) -> Text:
        """A text from the file ``name`` of the attempt, truncated by :meth:`cut`."""
        return self.cut(text, self.path(name), at_most)

    def cut(self, text: str, path: str, at_most: int = MAX_BYTES) -> Text:
        """A text from ``path`` in the run directory, truncated in the middle if longer than ``at_most`` bytes."""
        data = text.encode("utf-8", "surrogatepass")
        limit = min(self._limit(), at_most)
        self.used += min(len(data), limit)
        if len(data) <= limit:
            return Text(text=text)
        half = limit // 2
        left_out = len(data) - 2 * half
        cut = data[:half] + f"\n[... {left_out} bytes left out ...]\n".encode() + data[-half:]
        return Text(text=cut.decode("utf-8", "backslashreplace"), left_out=left_out, path=path)

    def value(self, value: object, name: str) -> Text:
        """A JSON value as text. Strings are not quoted, and a list of strings has one string per line."""
        if isinstance(value, list) and value and all(isinstance(item, str) and "\n" not in item for item in value):
            value = "\n".join(value)
        if not isinstance(value, str):
            try:
                value = json.dumps(value, indent=2, ensure_ascii=False, default=repr)
            except RecursionError:
                value = "(nested too deeply to be shown)"
        return self.excerpt(value, name)

    def _limit(self) -> int:
        return MAX_BYTES if self.used < PAGE_MAX_BYTES else SHORT


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for kind, lines in itertools.groupby(_kinds(text.removesuffix("\n").split("\n")), key=lambda pair: pair[0]):
        yield kind, "\n".join(line for _, line in lines)


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Classify lines. Counts the lines of hunks, since ``--- `` in a hunk is a removed line and not a header."""
    removed = added = 0  # remaining lines of the hunk
    for line in lines:
        if header := _HUNK.match(line):
            removed, added = (int(number or 1) for number in header.groups())
            yield _PLACE, line
        elif removed <= 0 and added <= 0 and line.startswith(_HEADS):
            yield _HEAD, line
        else:
            kind = {"+": _ADDED, "-": _REMOVED}.get(line[:1], _SAME)
            removed -= kind != _ADDED
            added -= kind != _REMOVED
            yield kind, line
