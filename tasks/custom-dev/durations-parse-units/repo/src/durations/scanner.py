"""Cut the text of a duration into parts: a number and its unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from durations.errors import DurationError
from durations.units import Unit, UnitTable

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"\s*(?:,|and\b)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """One part of a duration, and where it starts in the text."""

    amount: Fraction
    unit: Unit
    position: int


@lru_cache(maxsize=32)
def _unit_pattern(units: UnitTable) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, units.spellings())), re.IGNORECASE)


def scan(text: str, units: UnitTable, start: int = 0) -> Iterator[Part]:
    """Yield the parts of ``text`` from ``start`` to its end.

    Raises DurationError at the first place that is not a number followed by a unit of ``units``.
    """
    unit_pattern = _unit_pattern(units)
    position = _skip(_SPACE, text, start)
    while position < len(text):
        number = _NUMBER.match(text, position)
        if number is None:
            raise DurationError(text, position, "expected a number")
        unit = unit_pattern.match(text, _skip(_SPACE, text, number.end()))
        if unit is None:
            raise DurationError(text, number.end(), "expected a unit")
        yield Part(Fraction(number.group()), units[unit.group()], position)
        position = _skip(_BETWEEN, text, unit.end())


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
