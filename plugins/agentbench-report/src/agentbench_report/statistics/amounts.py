"""Compare amounts such as cost, tokens or seconds, with one pair of values per task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import EQUAL, mean_of, sample_variance
from agentbench_report.statistics.numerics import check_share, two_sided_t


@attrs.frozen(kw_only=True)
class PairedAmounts:
    """A comparison of the means of two amounts over tasks, in the unit of the values."""

    a: float
    b: float
    difference: float
    """B minus A."""
    interval: Interval | None
    """``None`` with one task, or if all tasks differ by the same amount, since there is no spread to estimate from."""
    ratio: float | None
    """The mean of B divided by the mean of A; ``None`` if the latter is 0."""
    ratio_interval: Interval | None
    """``None`` without ``interval``, or if the mean of A may be 0, so that the ratio is not bounded."""


def paired_amounts(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> PairedAmounts | None:
    """Compare the means of ``a[i]`` and ``b[i]``, at least 0, over tasks i; ``None`` without tasks.

    The difference has the ``t_interval`` of the pairwise differences, and the ratio has the ``fieller`` interval. Both
    come from the same t statistic, so the interval of the ratio contains 1 exactly if the interval of the difference
    contains 0. ``benchmarks/amount_coverage.py`` compares them with the bootstrap, whose intervals are too narrow for
    skewed amounts.

    Raises:
        ValueError: the lengths differ, a value is negative or not finite, or ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    if len(a) != len(b) or not all(math.isfinite(value) and value >= 0 for value in (*a, *b)):
        raise ValueError("amounts must be pairs of finite values of at least 0")
    if not a:
        return None
    mean_a, mean_b = mean_of(a), mean_of(b)
    interval = t_interval([after - before for before, after in zip(a, b, strict=True)], confidence)
    return PairedAmounts(
        a=mean_a,
        b=mean_b,
        difference=mean_b - mean_a,
        interval=interval,
        ratio=mean_b / mean_a if mean_a else None,
        ratio_interval=interval and fieller(a, b, confidence),
    )


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The t interval of a mean, ``x̄ ± t · sd/√n`` with n-1 degrees of freedom, which is not clipped.

    ``None`` with fewer than two values, or if all of them are equal.

    Source: Student, Biometrika 6 (1908) 1.
    """
    variance = sample_variance(values)
    if not variance or max(values) - min(values) <= EQUAL * max(map(abs, values)):
        return None
    mean, half_width = mean_of(values), two_sided_t(confidence, len(values) - 1) * math.sqrt(variance / len(values))
    return Interval(low=mean - half_width, high=mean + half_width, confidence=confidence)


def fieller(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Fieller's interval of ``mean(b) / mean(a)`` for pairs: all ratios r for which the mean of ``b - ra`` may be 0.

    These are the r at which a paired t test at the level ``1 - confidence`` does not reject a mean of 0. With the means
    ā and b̄, and v the variances and the covariance of the means, they lie between the roots of::

        (ā² - t² v_aa) r² - 2 (ā b̄ - t² v_ab) r + (b̄² - t² v_bb) = 0

    The low end is at least 0, since amounts are not negative. ``None`` if the interval is not bounded, because ā is not
    significantly above 0, or with fewer than two pairs.

    Source: E. C. Fieller, Journal of the Royal Statistical Society B 16 (1954) 175.
    """
    n = len(a)
    if n < 2:
        return None
    mean_a, mean_b = mean_of(a), mean_of(b)
    t2 = two_sided_t(confidence, n - 1) ** 2

    def of_means(x: Sequence[float], mean_x: float, y: Sequence[float], mean_y: float) -> float:
        products = ((one - mean_x) * (other - mean_y) for one, other in zip(x, y, strict=True))
        return t2 * math.fsum(products) / (n - 1) / n

    square = mean_a**2 - of_means(a, mean_a, a, mean_a)
    middle = mean_a * mean_b - of_means(a, mean_a, b, mean_b)
    constant = mean_b**2 - of_means(b, mean_b, b, mean_b)
    if square <= EQUAL * mean_a**2:
        return None
    root = math.sqrt(max(0.0, middle**2 - square * constant))
    return Interval(low=max(0.0, (middle - root) / square), high=(middle + root) / square, confidence=confidence)
