"""Read a time sheet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo

from daybook.entries import Entry

_DATE = re.compile(r"#\s*(\d{4}-\d\d-\d\d)")
_LINE = re.compile(r"(\d\d):(\d\d)(\*?)\s*-\s*(\d\d):(\d\d)(\*?)\s+(\S.*)")


class SheetError(ValueError):
    """A line that cannot be read."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number


def read_sheet(text: str, zone: tzinfo) -> Iterator[Entry]:
    """Yield the entries of a sheet whose times are local times of ``zone``."""
    day: date | None = None
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line:
            continue
        try:
            if heading := _DATE.fullmatch(line):
                day = date.fromisoformat(heading[1])
            elif match := _LINE.fullmatch(line):
                if day is None:
                    raise ValueError("an entry before the first date")
                yield _entry(day, match, zone)
            else:
                raise ValueError(f"neither a date nor an entry: {line!r}")
        except ValueError as error:
            raise SheetError(number, str(error)) from error


def _entry(day: date, match: re.Match[str], zone: tzinfo) -> Entry:
    start = _moment(day, match[1], match[2], match[3], zone)
    end = _moment(day, match[4], match[5], match[6], zone)
    if end.timestamp() <= start.timestamp():
        end = _moment(day + timedelta(days=1), match[4], match[5], match[6], zone)
    return Entry(match[7], start, end)


def _moment(day: date, hour: str, minute: str, again: str, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, int(hour), int(minute), tzinfo=zone, fold=int(again == "*"))
