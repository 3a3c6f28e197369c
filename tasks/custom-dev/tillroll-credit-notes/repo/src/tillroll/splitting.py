"""Cut a whole number into parts that add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def split(amount: int, weights: Sequence[Fraction]) -> list[int]:
    """Parts of ``amount`` in proportion to ``weights``; what is left over goes to those that lost most."""
    whole = sum(weights)
    if not whole or any(weight < 0 for weight in weights):
        raise ValueError("weights must not be negative, and not all zero")
    exact = [amount * weight / whole for weight in weights]
    parts = [part.numerator // part.denominator for part in exact]
    lost = [part - kept for part, kept in zip(exact, parts, strict=True)]
    by_loss = sorted(range(len(parts)), key=lambda index: lost[index], reverse=True)
    for index in by_loss[: amount - sum(parts)]:
        parts[index] += 1
    return parts
