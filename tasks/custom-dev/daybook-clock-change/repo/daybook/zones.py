"""Time zones by rule: no database, the same answer everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache

_SUNDAY = 6


@dataclass(frozen=True)
class Changeover:
    """When the clocks change every year: on the ``nth`` Sunday of a month (-1: the last), at a time in UTC.

    ``days`` moves it, for zones where it is Saturday in UTC while it is Sunday there.
    """

    month: int
    nth: int
    at: time
    days: int = 0

    def in_year(self, year: int) -> datetime:
        """The moment in UTC, without zone."""
        if self.nth > 0:
            first = datetime(year, self.month, 1)
            sunday = first + timedelta(days=(_SUNDAY - first.weekday()) % 7 + 7 * (self.nth - 1))
        else:
            last = datetime(year + self.month // 12, self.month % 12 + 1, 1) - timedelta(days=1)
            sunday = last - timedelta(days=(last.weekday() - _SUNDAY) % 7 + 7 * (-self.nth - 1))
        return datetime.combine(sunday + timedelta(days=self.days), self.at)


class RuleZone(tzinfo):
    """A zone with one offset in winter, another in summer, and yearly rules for the changes."""

    def __init__(
        self,
        name: str,
        standard: timedelta,
        begins: Changeover,
        ends: Changeover,
        saving: timedelta = timedelta(hours=1),
    ) -> None:
        self.name = name
        self._standard = standard
        self._saving = saving
        self._begins = begins
        self._ends = ends

    def __repr__(self) -> str:
        return f"<RuleZone {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return RuleZone, (self.name, self._standard, self._begins, self._ends, self._saving)

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        if dt is None:
            return None
        return self._standard + self._dst(dt.replace(tzinfo=None))

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None if dt is None else self._dst(dt.replace(tzinfo=None))

    def tzname(self, dt: datetime | None) -> str:
        return self.name

    def fromutc(self, dt: datetime) -> datetime:
        moment = dt.replace(tzinfo=None)
        begins, ends = _changes(self._begins, self._ends, moment.year)
        saving = self._saving if _between(begins, moment, ends) else timedelta(0)
        again = ends <= moment < ends + self._saving
        return (dt + self._standard + saving).replace(fold=int(again))

    def _dst(self, wall: datetime) -> timedelta:
        begins, ends = _changes(self._begins, self._ends, wall.year)
        # Skipped times (fold 0) still count as winter, repeated ones (fold 0) as summer: PEP 495.
        offset = self._standard + (timedelta(0) if wall.fold else self._saving)
        return self._saving if _between(begins, wall.replace(fold=0) - offset, ends) else timedelta(0)


@lru_cache(maxsize=256)
def _changes(begins: Changeover, ends: Changeover, year: int) -> tuple[datetime, datetime]:
    return begins.in_year(year), ends.in_year(year)


def _between(begins: datetime, moment: datetime, ends: datetime) -> bool:
    if begins < ends:
        return begins <= moment < ends
    return not ends <= moment < begins


BERLIN = RuleZone(
    "Europe/Berlin", timedelta(hours=1), begins=Changeover(3, -1, time(1)), ends=Changeover(10, -1, time(1))
)
NEW_YORK = RuleZone(
    "America/New_York", timedelta(hours=-5), begins=Changeover(3, 2, time(7)), ends=Changeover(11, 1, time(6))
)
SYDNEY = RuleZone(
    "Australia/Sydney",
    timedelta(hours=10),
    begins=Changeover(10, 1, time(16), days=-1),
    ends=Changeover(4, 1, time(16), days=-1),
)

__all__ = ["BERLIN", "NEW_YORK", "SYDNEY", "UTC", "Changeover", "RuleZone"]
