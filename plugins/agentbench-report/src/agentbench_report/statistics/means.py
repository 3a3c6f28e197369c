"""Means over tasks: of scores, and of the differences between two runs when tasks were tried several times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from agentbench_report.statistics.binomial import wilson
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.numerics import check_share, t_below, two_sided_t

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
    attempt of hundreds): what is shown to people goes through ``at_least_unseen``.

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


def at_least_unseen(interval: Interval, mean: float, n: int) -> Interval:
    """An interval of the mean difference of ``n`` tasks, widened to ``unseen_bounds`` where it is narrower.

    However often few tasks are tried, they cannot show more than as many tasks that all agree would.

    Raises:
        ValueError: as ``unseen_bounds``.
    """
    low, high = unseen_bounds(mean, n, interval.confidence)
    return attrs.evolve(interval, low=min(low, interval.low), high=max(high, interval.high))
