"""Confidence intervals for the pass rate of independent attempts."""

from __future__ import annotations

import math

from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.numerics import beta_quantile, check_share, two_sided_z


def wilson(passed: int, scored: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a binomial rate.

    With ``p = passed / scored``, ``n = scored`` and ``z`` the normal quantile of ``(1 + confidence) / 2``::

        (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    It never has zero width, even at 0 of n and n of n. With no trials, it is 0 to 1. Trials must be independent, so do
    not use it for several attempts at one task.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927)
    209; recommended by R. G. Newcombe, Statistics in Medicine 17 (1998) 857.

    Raises:
        ValueError: ``passed`` is not within 0 to ``scored``, or ``confidence`` is not between 0 and 1.
    """
    check_counts(passed, scored)
    z = two_sided_z(confidence)
    if scored == 0:
        return Interval(low=0.0, high=1.0, confidence=confidence)
    low, high = score_bounds(passed / scored, scored, z)
    return Interval(low=low, high=high, confidence=confidence)


def score_bounds(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """The bounds of Wilson's formula for ``rate`` and ``n`` > 0 trials (actual or effective), with this quantile."""
    middle = rate + quantile * quantile / (2 * n)
    half = quantile * math.sqrt(rate * (1 - rate) / n + quantile * quantile / (4 * n * n))
    scale = 1 + quantile * quantile / n
    low = 0.0 if rate <= 0 else (middle - half) / scale  # exactly 0 and 1 at the ends, regardless of rounding
    high = 1.0 if rate >= 1 else (middle + half) / scale
    return max(0.0, low), min(1.0, high)


def clopper_pearson(passed: int, scored: int, confidence: float = 0.95) -> Interval:
    """The exact binomial interval, for few trials or when coverage must be guaranteed.

    The lower bound is the rate at which ``passed`` or more passes have probability ``(1 - confidence) / 2``, and the
    upper bound is the rate at which ``passed`` or fewer passes have this probability. With no failure in n trials and
    confidence ``1 - 2a``, the failure rate is at most ``1 - a^(1/n)`` (the "rule of three"). The interval is wider than
    Wilson's. Trials must be independent.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.

    Raises:
        ValueError: ``passed`` is not within 0 to ``scored``, or ``confidence`` is not between 0 and 1.
    """
    check_counts(passed, scored)
    check_share("confidence", confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if passed == 0 else beta_quantile(tail, passed, scored - passed + 1)
    high = 1.0 if passed == scored else beta_quantile(1 - tail, passed + 1, scored - passed)
    return Interval(low=low, high=high, confidence=confidence)


def check_counts(passed: int, scored: int) -> None:
    """Check that ``passed`` is between 0 and ``scored``.

    Raises:
        ValueError: ``passed`` is outside this range.
    """
    if not 0 <= passed <= scored:
        raise ValueError(f"passed must be between 0 and {scored} (scored), got {passed}")
