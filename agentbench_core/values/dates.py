"""Dates of tasks, and the range that ``--since`` and ``--until`` select."""

from __future__ import annotations

import datetime

import attrs


def utc_day(text: str) -> datetime.date:
    """The day in UTC of an ISO 8601 date or date with time. Raises ValueError if it does not exist."""
    moment = datetime.datetime.fromisoformat(text)
    return (moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)).date()


@attrs.frozen(kw_only=True)
class DateRange:
    """The days from ``since`` to ``until``, both included."""

    since: datetime.date | None = None  #: the first day; ``None`` for no limit
    until: datetime.date | None = None  #: the last day; ``None`` for no limit

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit. A range without limits also includes tasks without a date."""
        return self.since is not None or self.until is not None

    def includes(self, text: str) -> bool:
        """Whether a date, such as a task's, is in the range. A limited range never contains an empty date."""
        if not self.is_limited:
            return True
        if not text:
            return False
        day = utc_day(text)
        return (self.since is None or self.since <= day) and (self.until is None or day <= self.until)

    def __str__(self) -> str:
        """The range as its flags, such as ``--since 2025-01-01 --until 2025-03-31``."""
        limits = {"since": self.since, "until": self.until}
        return " ".join(f"--{name} {day}" for name, day in limits.items() if day is not None)
