"""From text to timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from durations.errors import DurationError
from durations.scanner import scan
from durations.units import DEFAULT_UNITS, UnitTable

_CLOCK = re.compile(r"\s*(\d+):([0-5]\d)(?::([0-5]\d))?\s*")
_SIGN = re.compile(r"\s*(-?)")


def parse(text: str, *, units: UnitTable = DEFAULT_UNITS) -> timedelta:
    """The duration that ``text`` describes, exact to the microsecond.

    Raises DurationError if it describes none.
    """
    sign = _SIGN.match(text)
    assert sign is not None
    factor = -1 if sign.group(1) else 1

    clock = _CLOCK.fullmatch(text, sign.end())
    if clock is not None:
        hours, minutes, seconds = (int(group or 0) for group in clock.groups())
        return factor * timedelta(hours=hours, minutes=minutes, seconds=seconds)

    total = Fraction(0)
    used: set[str] = set()
    for part in scan(text, units, sign.end()):
        if part.unit.name in used:
            raise DurationError(text, part.position, f"{part.unit.name} given twice")
        used.add(part.unit.name)
        total += part.amount * part.unit.seconds
    if not used:
        raise DurationError(text, sign.end(), "expected a number")
    return factor * timedelta(microseconds=round(total * 1_000_000))
