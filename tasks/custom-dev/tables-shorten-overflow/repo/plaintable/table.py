"""The table itself."""

from __future__ import annotations

from collections.abc import Iterable

from plaintable.columns import Column
from plaintable.styles import GRID, Style


class Table:
    """Rows of values under a fixed set of columns."""

    def __init__(self, columns: Iterable[Column], rows: Iterable[Iterable[object]] = ()) -> None:
        self.columns = tuple(columns)
        if not self.columns:
            raise ValueError("a table needs at least one column")
        self._rows: list[tuple[str, ...]] = []
        for row in rows:
            self.add(*row)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *values: object) -> None:
        """Add a row: one value per column."""
        if len(values) != len(self.columns):
            raise ValueError(f"expected {len(self.columns)} values, got {len(values)}")
        self._rows.append(tuple(column.text(value) for column, value in zip(self.columns, values, strict=True)))

    def render(self, style: Style = GRID) -> str:
        """The table as text, without a newline at its end."""
        titles = tuple(column.title for column in self.columns)
        widths = [column.width(row[index] for row in self._rows) for index, column in enumerate(self.columns)]
        aligns = [column.align for column in self.columns]

        lines = []
        if style.top:
            lines.append(style.rule(style.top, widths, aligns))
        lines.append(self._line(titles, widths, style))
        if style.below_title:
            lines.append(style.rule(style.below_title, widths, aligns))
        lines.extend(self._line(row, widths, style) for row in self._rows)
        if style.bottom:
            lines.append(style.rule(style.bottom, widths, aligns))
        return "\n".join(lines)

    def _line(self, texts: tuple[str, ...], widths: list[int], style: Style) -> str:
        cells = zip(self.columns, texts, widths, strict=True)
        return style.row([column.cell(text, width) for column, text, width in cells])
