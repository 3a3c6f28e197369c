"""Markdown pages: tables, links, and untrusted text in them. ``cli.page`` shows such pages on a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

MarkdownCell = str | int | float | None
"""A cell of a table. Text is Markdown: pass untrusted text through :func:`escape_markdown`."""

_NUMBER = re.compile(r"([-+]?[\d.]+( ?%)?)?")
_MARKUP = re.compile(r"([\\`*\[\]<>|&!~])")
_BAR = 20  # length of the longest bar


def escape_markdown(text: str) -> str:
    """Untrusted text for a Markdown line: control characters replaced, markup escaped."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return _MARKUP.sub(r"\\\1", printable)


def text_bar(share: float) -> str:
    """A bar for a share of the largest count, between 0 and 1, drawn as text."""
    return "\N{FULL BLOCK}" * max(1, round(share * _BAR))


class MarkdownLinks:
    """Reference links of a Markdown page. Their targets are listed at the end, which keeps tables readable."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def to(self, text: str, path: str) -> str:
        """A link to a file by its relative path. Both arguments may be untrusted."""
        target = quote(path.encode("utf-8", "surrogatepass"), safe="/@")
        number = self._numbers.setdefault(target, len(self._numbers) + 1)
        return f"[{escape_markdown(text)}][{number}]"

    def targets(self) -> str:
        """The link targets, for the end of the page."""
        return "\n".join(f"[{number}]: {target}" for target, number in self._numbers.items())


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[MarkdownCell]]) -> str:
    """A Markdown table. ``None`` is an empty cell.

    Columns of numbers are right-aligned. Text in the first column is never treated as a number, since a task may be
    named ``15``.
    """
    columns = []
    for index, title in enumerate(header):
        values = [row[index] for row in rows]
        right = bool(rows) and all(
            not isinstance(cell, str) or (index > 0 and _NUMBER.fullmatch(cell)) for cell in values
        )
        cells = [title, *("" if cell is None else str(cell) for cell in values)]
        width = max(len(title) + 2, *map(len, cells))
        rule = "-" * (width + 1) + (":" if right else "-")
        padded = [f" {cell.rjust(width) if right else cell.ljust(width)} " for cell in cells]
        columns.append([padded[0], rule, *padded[1:]])
    return "\n".join(f"|{'|'.join(line)}|" for line in zip(*columns, strict=True))
