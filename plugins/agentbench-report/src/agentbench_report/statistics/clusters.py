"""Means of attempts that belong together: at one task, or at tasks that were made from one repository."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import attrs

from agentbench_report.statistics.binomial import score_bounds
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import EQUAL, MeanEstimate, mean_of, sample_variance
from agentbench_report.statistics.numerics import check_share, two_sided_t


def cluster_se(scores: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """The standard error of the mean of ``scores`` (CR1); ``clusters[i]`` says where ``scores[i]`` belongs.

    With ``e`` the deviations from the mean, n scores and G clusters::

        √(Σ_g (Σ_{i in g} e_i)²) / n · √(G / (G-1))

    Clusters may depend on themselves in any way, but not on each other. With one score per cluster it is the usual
    standard error. ``None`` with fewer than two clusters: it cannot be estimated, which is not 0.

    Source: K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13; E. Miller, arXiv 2411.00640, section 2.2, with the
    correction for few clusters that statsmodels and R's sandwich apply.

    Raises:
        ValueError: the two differ in length, or a score is not finite.
    """
    return _cluster(scores, clusters).se


def cluster_mean(scores: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95) -> MeanEstimate:
    """The mean of scores from 0 to 1 with its ``cluster_se`` and the interval by t with G-1 degrees of freedom.

    Every score counts the same: for a mean over tasks of unequally many attempts, give one rate per task. The interval
    is cut off at 0 and 1. Where the error is 0, all clusters having the same mean, it says nothing about the next
    cluster: the interval is then ``korn_graubard``'s, and the estimate is marked degenerate.
    Fewer than two clusters: no error, and an interval of all of 0 to 1.

    Raises:
        ValueError: lengths differ, a score is outside 0 to 1, or ``confidence`` is not between 0 and 1.
    """
    found, everything = _checked(scores, clusters, confidence)
    if found.mean is None or found.se is None:
        return MeanEstimate(mean=found.mean, se=None, df=0, interval=everything, p=None, degenerate=True)
    if found.se == 0:
        interval = korn_graubard(scores, clusters, confidence)
        return MeanEstimate(mean=found.mean, se=0.0, df=found.groups - 1, interval=interval, p=None, degenerate=True)
    reach = two_sided_t(confidence, found.groups - 1) * found.se
    low, high = max(0.0, found.mean - reach), min(1.0, found.mean + reach)
    interval = Interval(low=low, high=high, confidence=confidence)
    return MeanEstimate(mean=found.mean, se=found.se, df=found.groups - 1, interval=interval, p=None, degenerate=False)


def korn_graubard(scores: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95) -> Interval:
    """Wilson's interval for scores from 0 to 1 in clusters, with as many trials as they are worth.

    ``n_eff = min(p(1-p) / cluster_se², n)``, and the t quantile with G-1 degrees of freedom in place of the normal one.
    Unlike ``cluster_mean``'s it stays within 0 to 1 by itself and is never empty. Where the error is 0 every cluster
    is worth one trial: what all attempts at five tasks have in common is known of five tasks, however many attempts
    there were. Fewer than two clusters: all of 0 to 1.

    Source: E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193, with Wilson's formula in place of Clopper
    and Pearson's, as Inspect's ``ci_wilson(cluster=...)``.

    Raises:
        ValueError: lengths differ, a score is outside 0 to 1, or ``confidence`` is not between 0 and 1.
    """
    found, everything = _checked(scores, clusters, confidence)
    if found.mean is None or found.se is None:
        return everything
    p, n = found.mean, len(scores)
    worth = min(p * (1 - p) / found.se**2, n) if found.se > 0 and 0 < p < 1 else found.groups
    low, high = score_bounds(p, worth, two_sided_t(confidence, found.groups - 1))
    return Interval(low=low, high=high, confidence=confidence)


@attrs.frozen(kw_only=True)
class VarianceComponents:
    """Where the spread of the pass rates of tasks comes from; see ``variance_components``."""

    mean: float | None
    """The mean over tasks of each task's own mean."""
    of_means: float | None
    """The variance of the means of tasks (what is seen); needs two tasks."""
    within: float | None
    """The variance of attempts at one task, mean over tasks (chance); needs a task with two attempts."""
    between: float | None
    """The variance of tasks without the chance in it (difficulty), at least 0; needs both."""
    se: float | None
    """The standard error of ``mean``."""


def variance_components(trials: Sequence[Sequence[float]]) -> VarianceComponents:
    """Divide the spread of scores into that between tasks and that within, from the scores of each task's attempts.

    With s² the variance of the means of n tasks, ``within`` the mean of the unbiased variances of the tasks that have
    two or more attempts, and K attempts at a task::

        between = max(0, s² - within · mean(1/K));  se = √(s²/n)

    More attempts at each task only lessen the share of ``within`` in s². Tasks without an attempt are left out.

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, section 3.

    Raises:
        ValueError: a score is not finite.
    """
    tasks = [task for task in trials if task]
    means = [mean_of(task) for task in tasks]
    if not means:
        return VarianceComponents(mean=None, of_means=None, within=None, between=None, se=None)
    inner = [found for found in map(sample_variance, tasks) if found is not None]
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
        raise ValueError(f"{len(scores)} scores, but {len(clusters)} say to which cluster they belong")
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
        raise ValueError("scores lie between 0 and 1")
    return _cluster(scores, clusters), Interval(low=0.0, high=1.0, confidence=confidence)
