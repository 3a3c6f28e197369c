"""What a column is: title, alignment, limits, and how its values become text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plaintable.width import Align, display_width, pad, shorten

__all__ = ["Align", "Column"]


@dataclass(frozen=True, kw_only=True)
class _Options:
    align: Align = "left"
    max_width: int | None = None
    ellipsis: str = "…"
    format: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Column(_Options):
    """One column of a table.

    ``format`` is a format specification such as ``.2f``; ``missing`` is written for None.
    """

    title: str

    def __post_init__(self) -> None:
        if self.max_width is not None and self.max_width < 1:
            raise ValueError(f"column {self.title!r}: max_width must be at least 1")
        if self.align not in ("left", "right", "center"):
            raise ValueError(f"column {self.title!r}: unknown alignment {self.align!r}")

    def text(self, value: object) -> str:
        """The text of a value: one line, without tabs."""
        text = self.missing if value is None else format(value, self.format)
        return " ".join(text.split()) if any(char in text for char in "\t\r\n") else text

    def width(self, texts: Iterable[str]) -> int:
        """The width this column needs for its title and ``texts``, within its limit."""
        wanted = max(map(display_width, (self.title, *texts)))
        return wanted if self.max_width is None else min(wanted, self.max_width)

    def cell(self, text: str, width: int) -> str:
        """``text``, shortened or filled up to ``width`` columns."""
        return pad(shorten(text, width, self.ellipsis), width, self.align)
