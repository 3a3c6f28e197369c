"""The one rule for rounding."""

from __future__ import annotations

from fractions import Fraction
from math import floor

HALF = Fraction(1, 2)


def nearest(value: Fraction) -> int:
    """The nearest whole number; the one away from zero if two are as near."""
    return floor(value + HALF)
