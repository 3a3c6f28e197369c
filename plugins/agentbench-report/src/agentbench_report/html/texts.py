"""Texts of an attempt, cut to a size that a page can hold. What was cut says so, with where the whole is."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from agentbench_core import RunView

AT_MOST = 256 << 10
"""Bytes of one text."""
PAGE_AT_MOST = 4 << 20
"""Bytes of all texts of an attempt; what comes later is cut to ``SHORT``."""
SHORT = 4 << 10

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_LEFT_OUT = re.compile(rb"\n\[\.\.\. (\d+) bytes left out")
_ADDED, _REMOVED, _PLACE, _HEAD, _SAME = "add", "del", "hunk", "head", "same"
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
    """A text as it is shown."""

    text: str
    left_out: int = 0
    """Bytes that were cut out of the middle."""
    path: str = ""
    """Where the whole is, relative to the run directory."""

    @property
    def is_diff(self) -> bool:
        """Whether it begins like a unified diff."""
        return self.text.startswith(("--- ", "diff --git "))

    def diff_blocks(self) -> Sequence[tuple[str, str]]:
        """Class and text of each block of lines of a unified diff that belong together."""
        return list(_blocks(self.text))


@attrs.define
class Texts:
    """Gives the texts of one attempt, within what a page can hold."""

    view: RunView
    task_id: str
    repeat: int
    used: int = 0

    def path(self, name: str) -> str:
        """Of a file of the attempt, relative to the run directory."""
        again = "" if self.repeat == 1 else f"@{self.repeat}"
        return f"tasks/{self.task_id}{again}/{name}"

    def file(self, name: str) -> Text | None:
        """A file of the attempt; ``None`` when there is none. Bytes that are no UTF-8 are shown as ``\\xNN``."""
        room = self._room()
        data = self.view.file(self.task_id, self.repeat, name, at_most=room)
        if data is None:
            return None
        self.used += len(data)
        cut = _LEFT_OUT.match(data, room // 2) if len(data) > room else None
        left_out = int(cut[1]) if cut else 0
        return Text(text=data.decode("utf-8", "backslashreplace"), left_out=left_out, path=self.path(name))

    def said(self, text: str, name: str, at_most: int = AT_MOST) -> Text:
        """A text that was found in the file ``name`` of the attempt."""
        return self.cut(text, self.path(name), at_most)

    def cut(self, text: str, path: str, at_most: int = AT_MOST) -> Text:
        """A text that was found in ``path`` of the run directory; of more than ``at_most`` bytes, both ends."""
        data = text.encode("utf-8", "surrogatepass")
        room = min(self._room(), at_most)
        self.used += min(len(data), room)
        if len(data) <= room:
            return Text(text=text)
        half = room // 2
        left_out = len(data) - 2 * half
        cut = data[:half] + f"\n[... {left_out} bytes left out ...]\n".encode() + data[-half:]
        return Text(text=cut.decode("utf-8", "backslashreplace"), left_out=left_out, path=path)

    def value(self, value: object, name: str) -> Text:
        """A value of JSON: text as it is, the rest as JSON."""
        if not isinstance(value, str):
            try:
                value = json.dumps(value, indent=2, ensure_ascii=False, default=repr)
            except RecursionError:
                value = "(nested too deeply to be shown)"
        return self.said(value, name)

    def _room(self) -> int:
        return AT_MOST if self.used < PAGE_AT_MOST else SHORT


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for kind, lines in itertools.groupby(_kinds(text.removesuffix("\n").split("\n")), key=lambda pair: pair[0]):
        yield kind, "\n".join(line for _, line in lines)


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """``--- `` in a hunk removes a line that begins with two dashes: how long a hunk is stands in its first line."""
    removed = added = 0  # lines that are left of the hunk
    for line in lines:
        if found := _HUNK.match(line):
            removed, added = (int(number or 1) for number in found.groups())
            yield _PLACE, line
        elif removed <= 0 and added <= 0 and line.startswith(_HEADS):
            yield _HEAD, line
        else:
            kind = {"+": _ADDED, "-": _REMOVED}.get(line[:1], _SAME)
            removed -= kind != _ADDED
            added -= kind != _REMOVED
            yield kind, line
