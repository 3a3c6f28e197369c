"""How often something happens, with what that number can be trusted for."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(events: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Where a rate lies, from so many events among ``of`` independent looks: Wilson's score interval, from 0 to 1.

    With ``p = events / of``, ``n = of`` and ``z`` the normal quantile of ``(1 + confidence) / 2``::

        (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    It is never empty, also at 0 of n and n of n. Without any look it is all of 0 to 1.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927) 209.

    Raises:
        ValueError: ``events`` is not within 0 to ``of``, or ``confidence`` not between 0 and 1.
    """
    if not 0 <= events <= of:
        raise ValueError(f"no interval for {events} of {of}")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1: {confidence}")
    if not of:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = events / of
    middle = rate + z * z / (2 * of)
    half = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    low = 0.0 if events == 0 else (middle - half) / scale  # exactly 0 and 1 at the ends, whatever rounding does
    high = 1.0 if events == of else (middle + half) / scale
    return max(0.0, low), min(1.0, high)
