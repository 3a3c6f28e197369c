"""Statistics as pure functions over plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

import attrs


@attrs.frozen(kw_only=True)
class Interval:
    """An interval for a rate, both bounds within 0 to 1."""

    low: float
    high: float
    confidence: float


def wilson(passed: int, scored: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a binomial rate.

    With ``p = passed / scored``, ``n = scored`` and ``z`` the normal quantile of ``(1 + confidence) / 2``::

        (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    It is never empty, also at 0 of n and n of n. Without any trial it is all of 0 to 1. Trials must be
    independent: not for several attempts at one task.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927)
    209; recommended by R. G. Newcombe, Statistics in Medicine 17 (1998) 857.

    Raises:
        ValueError: ``passed`` is not within 0 to ``scored``, or ``confidence`` not between 0 and 1.
    """
    if not 0 <= passed <= scored or not 0 < confidence < 1:
        raise ValueError(f"no interval for {passed} of {scored} at confidence {confidence}")
    if scored == 0:
        return Interval(low=0.0, high=1.0, confidence=confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    n, p = scored, passed / scored
    middle = p + z * z / (2 * n)
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if passed == 0 else (middle - reach) / scale  # exactly 0 and 1 at the ends, whatever rounding does
    high = 1.0 if passed == scored else (middle + reach) / scale
    return Interval(low=max(0.0, low), high=min(1.0, high), confidence=confidence)


def mean_of_means(groups: Iterable[tuple[int, int]]) -> float | None:
    """The mean over tasks of each task's own pass rate, from (passed, scored); tasks without a score are left out.

    Every task counts the same however many of its attempts were scored (macro average; E. Miller, Adding error
    bars to evals, arXiv 2411.00640, section 2). ``None`` when no task has a score.
    """
    rates = [passed / scored for passed, scored in groups if scored]
    return math.fsum(rates) / len(rates) if rates else None
