"""Which dates are agreed. A rule's ``dates(first)`` has no end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Protocol

from duedates.months import add_months, in_month

MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = range(7)


class Rule(Protocol):
    """Gives dates."""

    def dates(self, first: date) -> Iterator[date]:
        """The dates from ``first`` on, in order."""


@dataclass(frozen=True)
class Weekly:
    """Every so many weeks."""

    every: int = 1

    def dates(self, first: date) -> Iterator[date]:
        """The weekday of ``first``."""
        day = first
        while True:
            yield day
            day += timedelta(weeks=self.every)


@dataclass(frozen=True)
class Monthly:
    """Every so many months, on the same day of the month."""

    every: int = 1
    on: int | None = None

    def dates(self, first: date) -> Iterator[date]:
        """The day ``on``, or that of ``first``."""
        day = in_month(first.year, first.month, self.on or first.day)
        if day < first:
            day = add_months(day, 1)
        while True:
            yield day
            day = add_months(day, self.every)


@dataclass(frozen=True)
class MonthlyWeekday:
    """Every so many months, on the nth such weekday; from the end if negative."""

    nth: int
    weekday: int
    every: int = 1

    def dates(self, first: date) -> Iterator[date]:
        """The weekday of each month that has it."""
        month = first.replace(day=1)
        day = self._within(month)
        if day is not None and day < first:
            month = add_months(month, 1)
        while True:
            day = self._within(month)
            if day is not None:
                yield day
            month = add_months(month, self.every)

    def _within(self, month: date) -> date | None:
        if self.nth > 0:
            to_first = (self.weekday - month.weekday()) % 7
            day = month + timedelta(days=to_first, weeks=self.nth - 1)
        else:
            last = add_months(month, 1) - timedelta(days=1)
            day = last - timedelta(days=(last.weekday() - self.weekday) % 7, weeks=-self.nth - 1)
        return day if (day.year, day.month) == (month.year, month.month) else None
