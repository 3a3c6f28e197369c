"""Formatting for Markdown, CSV and JSON. Names come from task packs and are untrusted until escaped."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from agentbench_core import dump

Cell = str | int | float | None

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula. The last four are full-width forms, which spreadsheets treat the same."""
_NUMBER = re.compile(r"([-+]?[\d.]+( ?%)?)?")


def json_text(value: Any) -> str:
    """All fields of a value as JSON. Rates are between 0 and 1, durations in seconds, costs in US dollars."""
    return json.dumps(dump(value), indent=2) + "\n"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table as CSV. Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def safe_cell(value: Cell) -> Cell:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe.

    Numbers are unchanged, including negative ones. Since CSV is also printed on terminals, control characters are
    removed, except tabs and line ends, which CSV quotes. Source: OWASP, CSV Injection (CWE-1236).
    """
    if not isinstance(value, str):
        return value
    text = "".join(c for c in value if c in "\t\r\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    dangerous = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if dangerous else text


def plain(text: str) -> str:
    """Untrusted text for a Markdown line: control characters replaced, markup escaped."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return re.sub(r"([\\`*\[\]<>|&!~])", r"\\\1", printable)


class Links:
    """Reference links of a Markdown page. Their targets are listed at the end, which keeps tables readable."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def to(self, text: str, path: str) -> str:
        """A link to a file by its relative path. Both arguments may be untrusted."""
        target = quote(path.encode("utf-8", "surrogatepass"), safe="/@")
        number = self._numbers.setdefault(target, len(self._numbers) + 1)
        return f"[{plain(text)}][{number}]"

    def targets(self) -> str:
        """The link targets, for the end of the page."""
        return "\n".join(f"[{number}]: {target}" for target, number in self._numbers.items())


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A Markdown table. ``None`` is an empty cell.

    Columns of numbers are right-aligned. Text in the first column is never treated as a number, since a task may be
    named ``15``.
    """
    from tabulate import tabulate

    cells = [["" if cell is None else cell for cell in row] for row in rows]
    align = []
    for column in range(len(header)):
        values = [row[column] for row in cells]
        numbers = all(not isinstance(cell, str) or (column and _NUMBER.fullmatch(cell)) for cell in values)
        align.append("right" if numbers else "left")
    return tabulate(cells, headers=header, tablefmt="github", disable_numparse=True, colalign=align if cells else None)


def percent(rate: float) -> str:
    """A rate between 0 and 1 as a percentage."""
    return f"{rate:.1%}"


def points(difference: float) -> str:
    """The difference between two rates in percentage points, with its sign."""
    return f"{100 * difference:+z.1f} pp"


def p_value(p: float) -> str:
    """A p-value with four decimals, or ``< 0.0001``."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def counted(counts: Iterable[tuple[str, int]]) -> str:
    """Names with their counts: ``TIMEOUT, TESTS_FAILED x3``."""
    return ", ".join(name if times == 1 else f"{name} x{times}" for name, times in counts)
