"""The lines around and between cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plaintable.width import Align


@dataclass(frozen=True)
class Rule:
    """A horizontal line: its ends, its crossings and what it is drawn with."""

    left: str
    cross: str
    right: str
    line: str

    def draw(self, widths: Sequence[int]) -> str:
        return self.left + self.cross.join(self.line * width for width in widths) + self.right


@dataclass(frozen=True)
class Style:
    """How a table is drawn. A rule that is None is left out."""

    left: str
    between: str
    right: str
    padding: int
    top: Rule | None = None
    below_title: Rule | None = None
    bottom: Rule | None = None
    strip: bool = False
    alignment_marks: bool = False

    def row(self, cells: Sequence[str]) -> str:
        """One line of cells that already have their width."""
        space = " " * self.padding
        line = self.left + self.between.join(space + cell + space for cell in cells) + self.right
        return line.rstrip() if self.strip else line

    def rule(self, rule: Rule, widths: Sequence[int], aligns: Sequence[Align]) -> str:
        """One horizontal line for columns of these widths."""
        outer = [width + 2 * self.padding for width in widths]
        if not self.alignment_marks:
            return rule.draw(outer)
        marked = [_marked(width, align) for width, align in zip(outer, aligns, strict=True)]
        return rule.left + rule.cross.join(marked) + rule.right


def _marked(width: int, align: Align) -> str:
    left = ":" if align == "center" else "-"
    right = ":" if align in ("center", "right") else "-"
    return left + "-" * (width - 2) + right


_PLUS = Rule("+", "+", "+", "-")
GRID = Style("|", "|", "|", 1, top=_PLUS, below_title=_PLUS, bottom=_PLUS)
BOX = Style(
    "│",
    "│",
    "│",
    1,
    top=Rule("┌", "┬", "┐", "─"),
    below_title=Rule("├", "┼", "┤", "─"),
    bottom=Rule("└", "┴", "┘", "─"),
)
MINIMAL = Style("", "  ", "", 0, below_title=Rule("", "  ", "", "-"), strip=True)
MARKDOWN = Style("|", "|", "|", 1, below_title=Rule("|", "|", "|", "-"), alignment_marks=True)
