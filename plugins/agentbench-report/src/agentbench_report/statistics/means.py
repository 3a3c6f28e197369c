"""Means over tasks: of scores, and of the differences between two runs when tasks were tried several times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from agentbench_report.statistics.binomial import wilson
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.numerics import check_share, t_below, two_sided_t
from agentbench_report.statistics.paired import tango_bounds

EQUAL = 1e-12
"""Values no further apart are one value: 1 - 2/3 and 1/3 are not the same float."""


@attrs.frozen(kw_only=True)
class MeanEstimate:
    """A mean with its standard error and interval."""

    mean: float | None
    """``None`` without any value."""
    se: float | None
    """``None`` with fewer than two values (or clusters): it cannot be estimated."""
    df: int
    """Degrees of freedom of the t distribution that the interval is by; 0 without ``se``."""
    interval: Interval
    p: float | None
    """Two-sided, for a mean of 0; ``None`` where it is not asked, or not to be had."""
    degenerate: bool
    """There was no spread to estimate an error from: the interval is not by t but by the function's rule for this."""


def mean_of(values: Sequence[float]) -> float:
    """The mean of at least one finite value.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a mean needs values, all of them finite")
    return math.fsum(values) / len(values)


def sample_variance(values: Sequence[float]) -> float | None:
    """``Σ(x - x̄)² / (n-1)``; ``None`` with fewer than two values.

    Raises:
        ValueError: a value is not finite.
    """
    if len(values) < 2:
        return None
    mean = mean_of(values)
    if max(values) - min(values) <= EQUAL:
        return 0.0
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def se_clt(scores: Sequence[float]) -> float | None:
    """The standard error of the mean of independent scores, ``√(variance / n)``; ``None`` with fewer than two.

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, equation 1, with n-1.

    Raises:
        ValueError: a score is not finite.
    """
    variance = sample_variance(scores)
    return None if variance is None else math.sqrt(variance / len(scores))


def mean_difference(differences: Sequence[float], confidence: float = 0.95) -> MeanEstimate:
    """The mean over tasks of ``rate in B - rate in A``, each from -1 to 1, with the interval by t(n-1) over tasks.

    ``d̄ ± t · sd(d)/√n``, and p by the t test of a mean of 0 (Student's paired test). The differences carry the chance
    in a task's attempts with them, so that this holds for any number of attempts, also unequal ones; a test of pooled
    attempts does not. The interval is cut off at -1 and 1.

    This is t and nothing else, as published answers have it. With little spread it is far too narrow (one failed
    attempt of hundreds), and where few tasks were lost for good it misses too often: what is shown to people is
    ``tango_mean``.

    Without any spread t would give an interval of no width. It is then that of ``unseen_bounds``, the estimate is
    marked degenerate, and p is 1 if all differences are 0 and otherwise ``None``. One task: no error, an interval of -1
    to 1. None: no mean either, and p is 1.

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, section 4; Student, Biometrika 6 (1908) 1.

    Raises:
        ValueError: a difference is outside -1 to 1, or ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    if not all(-1 <= difference <= 1 for difference in differences):
        raise ValueError("differences of rates lie between -1 and 1")
    n, se = len(differences), se_clt(differences)
    if se is None:
        mean = differences[0] if differences else None
        everything = Interval(low=-1.0, high=1.0, confidence=confidence)
        return MeanEstimate(mean=mean, se=None, df=0, interval=everything, p=None if n else 1.0, degenerate=True)
    mean = mean_of(differences)
    p: float | None
    if se == 0:
        (low, high), p = unseen_bounds(mean, n, confidence), None if abs(mean) > EQUAL else 1.0
    else:
        reach, p = two_sided_t(confidence, n - 1) * se, 2 * t_below(-abs(mean) / se, n - 1)
        low, high = max(-1.0, mean - reach), min(1.0, mean + reach)
    interval = Interval(low=low, high=high, confidence=confidence)
    return MeanEstimate(mean=mean, se=se, df=n - 1, interval=interval, p=p, degenerate=se == 0)


def tango_mean(differences: Sequence[float], confidence: float = 0.95) -> Interval:
    """Tango's score interval for the mean of the tasks' ``rate in B - rate in A``, for any number of attempts at each.

    As ``korn_graubard`` does for one rate, with as many tasks as the differences are worth. Of the summed losses and
    gains b and c, n tasks that each go one way would have the variance ``v = (b + c - (c-b)²/n) / n²``; with se the
    standard error that was seen they are worth ``w = v/se²`` times as many: the score is that of wb, wc and wn, at the
    t quantile with n-1 degrees of freedom. Never narrower than ``unseen_bounds``, which it is without any spread:
    however often few tasks are tried, they cannot show more than as many that all agree would. Fewer than two tasks: -1
    to 1.

    A choice. t misses where few tasks are lost for good, since the sum of few is skewed; resampling (BCa) misses where
    attempts scatter on all tasks; ``benchmarks/coverage.py`` has figures of all three.

    Source: T. Tango, Statistics in Medicine 17 (1998) 891; E. L. Korn and B. I. Graubard, Survey Methodology 24
    (1998) 193.

    Raises:
        ValueError: as ``mean_difference``.
    """
    found, n = mean_difference(differences, confidence), len(differences)
    if found.mean is None or not found.se:
        return found.interval
    lost, gained = lost_and_gained(differences)
    worth = (lost + gained - (gained - lost) ** 2 / n) / (n * found.se) ** 2
    low, high = tango_bounds(worth * lost, worth * gained, worth * n, two_sided_t(confidence, n - 1))
    least, greatest = unseen_bounds(found.mean, n, confidence)
    return Interval(low=min(low, least), high=max(high, greatest), confidence=confidence)


def lost_and_gained(differences: Sequence[float]) -> tuple[float, float]:
    """The sum of what is below 0, as a positive number, and that of what is above."""
    return math.fsum(-one for one in differences if one < 0), math.fsum(one for one in differences if one > 0)


def unseen_bounds(mean: float, n: int, confidence: float) -> tuple[float, float]:
    """The least and greatest mean difference when a kind of task may be missing among the ``n`` that gave ``mean``.

    The share of such tasks is at most Wilson's bound for none of n, ``w = z² / (n + z²)``, and they may differ by -1 or
    1: ``mean - w (1 + mean)`` to ``mean + w (1 - mean)``. With a mean of -1, 0 or 1 of pairs that are all alike it is
    Tango's interval.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1, or ``n`` is negative.
    """
    w = wilson(0, n, confidence).high
    return mean - w * (1 + mean), mean + w * (1 - mean)
