"""Holidays, and their substitutes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import date, timedelta

Holiday = tuple[int, int] | Callable[[int], date]
"""Month and day, or a function from the year to the date."""

_DAY = timedelta(days=1)


class Holidays:
    """The days off for holidays, worked out once for each year."""

    def __init__(self, holidays: Iterable[Holiday], weekend: Collection[int]) -> None:
        self._holidays = tuple(holidays)
        self._weekend = frozenset(weekend)
        self._years: dict[int, frozenset[date]] = {}

    def __contains__(self, day: date) -> bool:
        """Whether the day is a holiday, or the substitute for one."""
        if day.year not in self._years:
            self._years[day.year] = self._days_off(day.year)
        return day in self._years[day.year]

    def _days_off(self, year: int) -> frozenset[date]:
        holidays = sorted(self._in_year(year))
        off = set(holidays)
        for holiday in holidays:
            if holiday.weekday() in self._weekend:
                substitute = holiday
                while substitute in off or substitute.weekday() in self._weekend:
                    substitute += _DAY
                off.add(substitute)
        return frozenset(off)

    def _in_year(self, year: int) -> set[date]:
        return {holiday(year) if callable(holiday) else date(year, *holiday) for holiday in self._holidays}
