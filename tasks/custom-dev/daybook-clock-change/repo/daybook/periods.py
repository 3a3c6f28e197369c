"""Days and weeks as stretches of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """The time from ``start`` up to, but without, ``end``. Both are kept in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment.astimezone(UTC) < self.end

    @property
    def duration(self) -> timedelta:
        """The time that passes."""
        return self.end - self.start

    def overlap(self, other: Period) -> timedelta:
        """How much time both have in common."""
        return max(timedelta(0), min(self.end, other.end) - max(self.start, other.start))


def midnight(day: date, zone: tzinfo) -> datetime:
    """The moment at which ``day`` begins in ``zone``."""
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def day_period(day: date, zone: tzinfo) -> Period:
    """The whole of ``day`` in ``zone``."""
    start = midnight(day, zone)
    return Period(start, start + _DAY)


def week_period(day: date, zone: tzinfo) -> Period:
    """The week, Monday to Sunday, that ``day`` is in."""
    monday = day - day.weekday() * _DAY
    return Period(midnight(monday, zone), midnight(monday + 7 * _DAY, zone))


def days(first: date, last: date) -> list[date]:
    """The dates from ``first`` to ``last``, both included."""
    return [first + number * _DAY for number in range((last - first).days + 1)]
