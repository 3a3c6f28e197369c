"""Means of clustered attempts, for example attempts at one task or at tasks from one repository."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import attrs

from agentbench_report.statistics.binomial import score_bounds
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import EQUAL, MeanEstimate, mean_of, sample_variance
from agentbench_report.statistics.numerics import check_share, two_sided_t


def cluster_se(scores: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """The clustered standard error (CR1) of the mean of ``scores``; ``clusters[i]`` is the cluster of ``scores[i]``.

    With ``e`` the deviations from the mean, n scores and G clusters::

        √(Σ_g (Σ_{i in g} e_i)²) / n · √(G / (G-1))

    Scores within a cluster may be dependent in any way; clusters must be independent. With one score per cluster, this
    is the usual standard error. ``None`` with fewer than two clusters, where the error is unknown and not 0.

    Source: K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13; E. Miller, arXiv 2411.00640, section 2.2, with the
    correction for few clusters that statsmodels and R's sandwich apply.

    Raises:
        ValueError: ``scores`` and ``clusters`` differ in length, or a score is not finite.
    """
    return _cluster(scores, clusters).se


def cluster_mean(scores: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95) -> MeanEstimate:
    """The mean of scores from 0 to 1 with its ``cluster_se`` and the t interval with G-1 degrees of freedom.

    Every score has the same weight. For a mean over tasks with different numbers of attempts, pass one rate per task.
    The interval is clipped to 0 to 1. If all clusters have the same mean, the error is 0 and a t interval is not
    informative. In that case ``korn_graubard`` gives the interval, and the estimate is marked degenerate. With fewer
    than two clusters there is no error and the interval is 0 to 1.

    Raises:
        ValueError: lengths differ, a score is outside 0 to 1, or ``confidence`` is not between 0 and 1.
    """
    stats, everything = _checked(scores, clusters, confidence)
    if stats.mean is None or stats.se is None:
        return MeanEstimate(mean=stats.mean, se=None, df=0, interval=everything, p=None, degenerate=True)
    if stats.se == 0:
        interval = korn_graubard(scores, clusters, confidence)
        return MeanEstimate(mean=stats.mean, se=0.0, df=stats.groups - 1, interval=interval, p=None, degenerate=True)
    half_width = two_sided_t(confidence, stats.groups - 1) * stats.se
    low, high = max(0.0, stats.mean - half_width), min(1.0, stats.mean + half_width)
    interval = Interval(low=low, high=high, confidence=confidence)
    return MeanEstimate(mean=stats.mean, se=stats.se, df=stats.groups - 1, interval=interval, p=None, degenerate=False)


def korn_graubard(scores: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95) -> Interval:
    """Wilson's interval for clustered scores from 0 to 1, with the effective number of trials.

    ``n_eff = min(p(1-p) / cluster_se², n)``, with the t quantile with G-1 degrees of freedom instead of the normal one.
    Unlike the interval of ``cluster_mean`` it needs no clipping and never has zero width. If the error is 0, each
    cluster counts as one trial: attempts at five tasks that agree are evidence from five tasks, regardless of the
    number of attempts. With fewer than two clusters, it is 0 to 1.

    Source: E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193, with Wilson's formula in place of Clopper
    and Pearson's, like Inspect's ``ci_wilson(cluster=...)``.

    Raises:
        ValueError: lengths differ, a score is outside 0 to 1, or ``confidence`` is not between 0 and 1.
    """
    stats, everything = _checked(scores, clusters, confidence)
    if stats.mean is None or stats.se is None:
        return everything
    p, n = stats.mean, len(scores)
    n_eff = min(p * (1 - p) / stats.se**2, n) if stats.se > 0 and 0 < p < 1 else stats.groups
    low, high = score_bounds(p, n_eff, two_sided_t(confidence, stats.groups - 1))
    return Interval(low=low, high=high, confidence=confidence)


@attrs.frozen(kw_only=True)
class VarianceComponents:
    """The variance of task scores, split by source; see ``variance_components``."""

    mean: float | None
    """The mean over tasks of each task's mean."""
    of_means: float | None
    """The observed variance of the task means; requires two tasks."""
    within: float | None
    """The variance of attempts at one task (chance), averaged over tasks; requires a task with two attempts."""
    between: float | None
    """The variance between tasks due to difficulty, not to chance; at least 0. Requires both of the above."""
    se: float | None
    """The standard error of ``mean``."""


def variance_components(trials: Sequence[Sequence[float]]) -> VarianceComponents:
    """Split the variance of scores into the parts between and within tasks, given the scores of each task's attempts.

    With s² the variance of the means of n tasks, ``within`` the mean of the unbiased variances of the tasks with two or
    more attempts, and K attempts at a task::

        between = max(0, s² - within · mean(1/K));  se = √(s²/n)

    More attempts at each task reduce only the contribution of ``within`` to s². Tasks without attempts are left out.

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, section 3.

    Raises:
        ValueError: a score is not finite.
    """
    tasks = [task for task in trials if task]
    means = [mean_of(task) for task in tasks]
    if not means:
        return VarianceComponents(mean=None, of_means=None, within=None, between=None, se=None)
    inner = [variance for variance in map(sample_variance, tasks) if variance is not None]
    of_means, within = sample_variance(means), mean_of(inner) if inner else None
    between = None
    if of_means is not None and within is not None:
        between = max(0.0, of_means - within * mean_of([1 / len(task) for task in tasks]))
    se = None if of_means is None else math.sqrt(of_means / len(means))
    return VarianceComponents(mean=mean_of(means), of_means=of_means, within=within, between=between, se=se)


@attrs.frozen(kw_only=True)
class _Clustered:
    mean: float | None
    se: float | None
    groups: int


def _cluster(scores: Sequence[float], clusters: Sequence[Hashable]) -> _Clustered:
    if len(scores) != len(clusters):
        raise ValueError(f"scores and clusters must have the same length, got {len(scores)} and {len(clusters)}")
    if not scores:
        return _Clustered(mean=None, se=None, groups=0)
    mean = mean_of(scores)
    sums: dict[Hashable, list[float]] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        sums.setdefault(cluster, []).append(score - mean)
    groups = len(sums)
    if groups < 2:
        return _Clustered(mean=mean, se=None, groups=groups)
    total = math.fsum(math.fsum(deviations) ** 2 for deviations in sums.values())
    se = math.sqrt(total * groups / (groups - 1)) / len(scores)
    return _Clustered(mean=mean, se=se if se > EQUAL else 0.0, groups=groups)


def _checked(scores: Sequence[float], clusters: Sequence[Hashable], confidence: float) -> tuple[_Clustered, Interval]:
    check_share("confidence", confidence)
    if not all(0 <= score <= 1 for score in scores):
        raise ValueError("scores must be between 0 and 1")
    return _cluster(scores, clusters), Interval(low=0.0, high=1.0, confidence=confidence)
