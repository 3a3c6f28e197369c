"""Units of time and the spellings people use for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Unit:
    """A unit: its name, its length in seconds, and how it may be written."""

    name: str
    seconds: int | Fraction
    spellings: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"unit {self.name!r} must be longer than 0 seconds")
        for spelling in self.spellings:
            if not spelling.isalpha():
                raise ValueError(f"unit {self.name!r}: a spelling consists of letters, not {spelling!r}")


class UnitTable:
    """An immutable set of units, found by any of their spellings, whatever the case."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self._units = tuple(units)
        self._by_spelling: dict[str, Unit] = {}
        for unit in self._units:
            for spelling in unit.spellings:
                other = self._by_spelling.setdefault(spelling.lower(), unit)
                if other is not unit:
                    raise ValueError(f"{spelling!r} means both {other.name!r} and {unit.name!r}")

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units)

    def __getitem__(self, spelling: str) -> Unit:
        return self._by_spelling[spelling.lower()]

    def spellings(self) -> tuple[str, ...]:
        """Every spelling, in lower case, unit by unit."""
        return tuple(self._by_spelling)

    def with_unit(self, unit: Unit) -> UnitTable:
        """A new table that knows one more unit."""
        return UnitTable((*self._units, unit))


DEFAULT_UNITS = UnitTable(
    (
        Unit("week", 7 * 86400, ("weeks", "week", "w")),
        Unit("day", 86400, ("days", "day", "d")),
        Unit("hour", 3600, ("hours", "hour", "hrs", "hr", "h")),
        Unit("minute", 60, ("minutes", "minute", "mins", "min", "m")),
        Unit("second", 1, ("seconds", "second", "secs", "sec", "s")),
        Unit("millisecond", Fraction(1, 1000), ("milliseconds", "millisecond", "ms")),
    )
)
