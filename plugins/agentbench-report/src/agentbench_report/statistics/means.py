"""Means over tasks: of scores, and of differences between two runs with several attempts at each task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from agentbench_report.statistics.binomial import wilson
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.numerics import check_share, t_below, two_sided_t
from agentbench_report.statistics.paired import tango_bounds

EQUAL = 1e-12
"""Values that differ by at most this amount are treated as equal, since floats such as 1 - 2/3 and 1/3 differ."""


@attrs.frozen(kw_only=True)
class MeanEstimate:
    """A mean with its standard error and interval."""

    mean: float | None
    """``None`` with no values."""
    se: float | None
    """``None`` with fewer than two values (or clusters), since it cannot be estimated."""
    df: int
    """Degrees of freedom of the t distribution used for the interval; 0 without ``se``."""
    interval: Interval
    p: float | None
    """The two-sided p-value for a mean of 0; ``None`` if it was not requested or cannot be computed."""
    degenerate: bool
    """Whether there is no spread, or no ``se``, so that the interval is not a t interval. Each function documents what
    it uses instead."""


def mean_of(values: Sequence[float]) -> float:
    """The mean of at least one finite value.

    Raises:
        ValueError: ``values`` is empty, or a value is not finite.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a mean requires at least one value, and finite values only")
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
    """The mean over tasks of ``rate in B - rate in A``, each from -1 to 1, with the t(n-1) interval over tasks.

    ``d̄ ± t · sd(d)/√n``, and p by the t test of a mean of 0 (Student's paired test). The differences include chance
    within each task, so this is valid for any number of attempts, even if it varies by task. A test of pooled
    attempts is not. The interval is clipped to -1 to 1.

    This is the plain t interval, comparable with published results. With little spread (one failed attempt among
    hundreds), it is far too narrow, and if a few tasks fail in every attempt, its coverage is too low. Reports show
    ``tango_mean`` instead.

    Without any spread, the t interval would have zero width. In that case, ``unseen_bounds`` gives the interval, the
    estimate is marked degenerate, and p is 1 if all differences are 0 and ``None`` otherwise. With one task, there is
    no error, the interval is -1 to 1, and p is ``None``. With no tasks, there is no mean either, and p is 1.

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, section 4; Student, Biometrika 6 (1908) 1.

    Raises:
        ValueError: a difference is outside -1 to 1, or ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    if not all(-1 <= difference <= 1 for difference in differences):
        raise ValueError("differences in rates must be between -1 and 1")
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
        half_width, p = two_sided_t(confidence, n - 1) * se, 2 * t_below(-abs(mean) / se, n - 1)
        low, high = max(-1.0, mean - half_width), min(1.0, mean + half_width)
    interval = Interval(low=low, high=high, confidence=confidence)
    return MeanEstimate(mean=mean, se=se, df=n - 1, interval=interval, p=p, degenerate=se == 0)


def tango_mean(differences: Sequence[float], confidence: float = 0.95) -> Interval:
    """Tango's score interval for the mean over tasks of ``rate in B - rate in A``, with any number of attempts.

    Uses an effective number of tasks, as ``korn_graubard`` does for one rate. With b and c the summed losses and gains,
    n tasks with differences of -1, 0 or 1 would have the variance ``v = (b + c - (c-b)²/n) / n²``. With se the observed
    standard error, the effective number of tasks is ``w = v/se²`` times n. The score is computed from wb, wc and wn, at
    the t quantile with n-1 degrees of freedom. The interval is never narrower than ``unseen_bounds``, and equal to
    them without any spread, since more attempts at the same n tasks cannot show more than n tasks that all agree. With
    fewer than two tasks it is -1 to 1.

    This is a design choice. The coverage of the t interval is too low if a few tasks fail in every attempt, because the
    sum is skewed. So is that of the bootstrap interval (BCa) if attempts vary on all tasks. ``benchmarks/coverage.py``
    compares them.

    Source: T. Tango, Statistics in Medicine 17 (1998) 891; E. L. Korn and B. I. Graubard, Survey Methodology 24
    (1998) 193.

    Raises:
        ValueError: as for ``mean_difference``.
    """
    estimate, n = mean_difference(differences, confidence), len(differences)
    if estimate.mean is None or not estimate.se:
        return estimate.interval
    lost, gained = lost_and_gained(differences)
    factor = (lost + gained - (gained - lost) ** 2 / n) / (n * estimate.se) ** 2
    low, high = tango_bounds(factor * lost, factor * gained, factor * n, two_sided_t(confidence, n - 1))
    least, greatest = unseen_bounds(estimate.mean, n, confidence)
    return Interval(low=min(low, least), high=max(high, greatest), confidence=confidence)


def lost_and_gained(differences: Sequence[float]) -> tuple[float, float]:
    """The sum of the absolute values of the negative differences, and the sum of the positive ones."""
    lost = math.fsum(-difference for difference in differences if difference < 0)
    return lost, math.fsum(difference for difference in differences if difference > 0)


def unseen_bounds(mean: float, n: int, confidence: float) -> tuple[float, float]:
    """Bounds of the mean difference that allow for kinds of tasks not observed among the ``n`` tasks behind ``mean``.

    Tasks of unobserved kinds make up at most Wilson's bound for 0 of n, ``w = z² / (n + z²)``, and may differ by -1 or
    1: ``mean - w (1 + mean)`` to ``mean + w (1 - mean)``. If all pairs have the same difference (-1, 0 or 1), this is
    Tango's interval.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1, or ``n`` is negative.
    """
    w = wilson(0, n, confidence).high
    return mean - w * (1 + mean), mean + w * (1 - mean)
