"""Working days."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, timedelta

from duedates.holidays import Holiday, Holidays

_DAY = timedelta(days=1)


class Calendar:
    """Knows on which days there is work."""

    def __init__(
        self,
        holidays: Iterable[Holiday] = (),
        *,
        weekend: Collection[int] = (5, 6),
        closures: Iterable[tuple[date, date]] = (),
    ) -> None:
        if len(set(weekend)) > 6:
            raise ValueError("a week needs a working day")
        self._weekend = frozenset(weekend)
        self._holidays = Holidays(holidays, weekend)
        self._closures = tuple(closures)

    def is_working_day(self, day: date) -> bool:
        """Whether there is work on this day."""
        if day.weekday() in self._weekend or day in self._holidays:
            return False
        return not any(first <= day <= last for first, last in self._closures)

    def following(self, day: date) -> date:
        """This day, or the next working day."""
        while not self.is_working_day(day):
            day += _DAY
        return day

    def preceding(self, day: date) -> date:
        """This day, or the last working day before."""
        while not self.is_working_day(day):
            day -= _DAY
        return day

    def modified(self, day: date) -> date:
        """This day, or the next working day, or the last one before if the next is in another month."""
        later = self.following(day)
        return later if (later.year, later.month) == (day.year, day.month) else self.preceding(day)
