"""Tables and words for Markdown, CSV and JSON. Names come from task packs and are hostile until escaped."""

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
"""What begins a formula; the last four are the full-width forms, which spreadsheets take for the same."""
_NUMBER = re.compile(r"([-+]?[\d.]+( ?%)?)?")


def json_text(value: Any) -> str:
    """Every field of a value; rates are between 0 and 1, durations seconds, costs US dollars."""
    return json.dumps(dump(value), indent=2) + "\n"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table as CSV. Numbers are numbers; text that a spreadsheet would run as a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def safe_cell(value: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.

    Numbers stay numbers, so that negative ones survive. Control characters are dropped, since CSV is printed on
    terminals too, except tab and line ends, which quoting holds. Source: OWASP, CSV Injection (CWE-1236).
    """
    if not isinstance(value, str):
        return value
    text = "".join(c for c in value if c in "\t\r\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    dangerous = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if dangerous else text


def plain(text: str) -> str:
    """Text from outside for a Markdown line: control characters gone, markup escaped."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return re.sub(r"([\\`*\[\]<>|&!~])", r"\\\1", printable)


class Links:
    """The links of a Markdown page. Where they lead stands at its end, so that tables can be read in a terminal."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def to(self, text: str, path: str) -> str:
        """A link to a file, by a relative path; both may hold anything."""
        place = quote(path.encode("utf-8", "surrogatepass"), safe="/@")
        number = self._numbers.setdefault(place, len(self._numbers) + 1)
        return f"[{plain(text)}][{number}]"

    def places(self) -> str:
        """What belongs at the end of the page."""
        return "\n".join(f"[{number}]: {place}" for place, number in self._numbers.items())


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table for Markdown; ``None`` is an empty cell.

    Columns of numbers are aligned to the right. Text in the first one is never a number: a task may be called 15.
    """
    from tabulate import tabulate

    cells = [["" if cell is None else cell for cell in row] for row in rows]
    align = []
    for column in range(len(header)):
        each = [row[column] for row in cells]
        numbers = all(not isinstance(cell, str) or (column and _NUMBER.fullmatch(cell)) for cell in each)
        align.append("right" if numbers else "left")
    return tabulate(cells, headers=header, tablefmt="github", disable_numparse=True, colalign=align if cells else None)


def percent(rate: float) -> str:
    """A rate between 0 and 1, as people read it."""
    return f"{rate:.1%}"


def points(difference: float) -> str:
    """A difference of two rates in percentage points, with its sign."""
    return f"{100 * difference:+z.1f} points"


def p_value(p: float) -> str:
    """A p-value; very small ones are said to be so."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def counted(counts: Iterable[tuple[str, int]]) -> str:
    """Names with how often each was met: ``TIMEOUT, TESTS_FAILED x3``."""
    return ", ".join(name if times == 1 else f"{name} x{times}" for name, times in counts)
