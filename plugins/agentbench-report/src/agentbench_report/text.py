"""Formatting of CSV, JSON and numbers. Names come from task packs and are untrusted until escaped."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from agentbench_core import MarkdownCell, dump

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula. The last four are full-width forms, which spreadsheets also recognize."""


def json_text(value: Any) -> str:
    """All fields of a value as JSON. Rates are between 0 and 1, durations in seconds, costs in US dollars."""
    return json.dumps(dump(value), indent=2) + "\n"


def csv_text(header: Sequence[str], rows: Iterable[Sequence[MarkdownCell]]) -> str:
    """A table as CSV. Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def safe_cell(value: MarkdownCell) -> MarkdownCell:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe.

    Numbers are unchanged, including negative ones. Since CSV is also printed on terminals, control characters are
    removed, except tabs and line ends, which CSV quotes. Source: OWASP, CSV Injection (CWE-1236).
    """
    if not isinstance(value, str):
        return value
    text = "".join(c for c in value if c in "\t\r\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    dangerous = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if dangerous else text


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
