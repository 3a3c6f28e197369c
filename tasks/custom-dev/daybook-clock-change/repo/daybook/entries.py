"""What was done, from when to when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from daybook.periods import Period


@dataclass(frozen=True)
class Entry:
    """One piece of work. ``start`` and ``end`` carry their time zone."""

    title: str
    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"{self.title!r}: start and end need a time zone")
        if self.end <= self.start:
            raise ValueError(f"{self.title!r} must end after it starts")

    @property
    def period(self) -> Period:
        """The time from start to end."""
        return Period(self.start, self.end)

    @property
    def duration(self) -> timedelta:
        """The time it took."""
        return self.end - self.start
