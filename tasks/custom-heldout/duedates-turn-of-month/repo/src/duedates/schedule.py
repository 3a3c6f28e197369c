"""Payments, and when they are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import dropwhile, islice, takewhile

from duedates.calendar import Calendar
from duedates.rules import Rule

CONVENTIONS = {"following": Calendar.following, "preceding": Calendar.preceding, "modified": Calendar.modified}


@dataclass(frozen=True)
class Payment:
    """The date that was agreed, and the day of payment."""

    agreed: date
    day: date


class Schedule:
    """The payments that follow from a rule, in a calendar."""

    def __init__(
        self,
        rule: Rule,
        first: date,
        *,
        calendar: Calendar | None = None,
        convention: str = "following",
        until: date | None = None,
        count: int | None = None,
    ) -> None:
        if convention not in CONVENTIONS:
            raise ValueError(f"no convention {convention!r}; there are {', '.join(CONVENTIONS)}")
        self._rule = rule
        self._first = first
        self._calendar = calendar or Calendar()
        self._move = CONVENTIONS[convention]
        self._until = until
        self._count = count

    def agreed(self) -> Iterator[date]:
        """The agreed dates, in order; without end if the schedule has none."""
        until = self._until
        dates = self._rule.dates(self._first)
        if until is not None:
            dates = takewhile(lambda day: day <= until, dates)
        return islice(dates, self._count)

    def between(self, start: date, end: date) -> list[Payment]:
        """The payments that are made from ``start`` to ``end``, both included."""
        from_start = dropwhile(lambda day: day < start, self.agreed())
        return [self._payment(day) for day in takewhile(lambda day: day <= end, from_start)]

    def next_after(self, day: date) -> Payment | None:
        """The first payment that is made after this day, if there is one."""
        later = dropwhile(lambda agreed: agreed <= day, self.agreed())
        return next(map(self._payment, later), None)

    def _payment(self, agreed: date) -> Payment:
        return Payment(agreed, self._move(self._calendar, agreed))
