"""Pass rates over tasks that were tried several times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

from agentbench_report.statistics.binomial import check_counts
from agentbench_report.statistics.clusters import korn_graubard
from agentbench_report.statistics.interval import Interval


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The chance that at least one of ``k`` attempts passes, unbiased, from ``c`` passes among ``n`` attempts.

    ``1 - C(n-c, k) / C(n, k)``. ``None`` when ``k > n``: it cannot be estimated. (``1 - (1 - c/n)^k`` is biased.)

    Source: M. Chen et al., Evaluating large language models trained on code, arXiv 2107.03374, equation 1.

    Raises:
        ValueError: ``c`` is not within 0 to ``n``, or ``k`` is below 1.
    """
    check_counts(c, n)
    _check_k(k)
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways if k <= n else None


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The chance that all of ``k`` attempts pass (pass^k), unbiased, from ``c`` passes among ``n`` attempts.

    ``C(c, k) / C(n, k)``; ``None`` when ``k > n``.

    Source: S. Yao et al., tau-bench, arXiv 2406.12045, section 4.

    Raises:
        ValueError: ``c`` is not within 0 to ``n``, or ``k`` is below 1.
    """
    check_counts(c, n)
    _check_k(k)
    return math.comb(c, k) / math.comb(n, k) if k <= n else None


@attrs.frozen(kw_only=True)
class MeanAtK:
    """A mean over tasks, how many tasks it is of, and how many had too few attempts for it."""

    value: float | None
    tasks: int
    excluded: int


def mean_pass_at_k(tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    """The mean over tasks of ``pass_at_k``, from (attempts, passes) of each; every task counts the same.

    Tasks with fewer than ``k`` attempts are excluded and counted. For an interval, resample tasks.

    Raises:
        ValueError: as ``pass_at_k``.
    """
    return _mean_at_k(pass_at_k, tasks, k)


def mean_pass_hat_k(tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    """The mean over tasks of ``pass_hat_k``, from (attempts, passes) of each; see ``mean_pass_at_k``.

    Raises:
        ValueError: as ``pass_hat_k``.
    """
    return _mean_at_k(pass_hat_k, tasks, k)


def mean_of_means(groups: Iterable[tuple[int, int]]) -> float | None:
    """The mean over tasks of each task's own pass rate, from (passed, scored); tasks without a score are left out.

    Every task counts the same however many of its attempts were scored (macro average; E. Miller, Adding error
    bars to evals, arXiv 2411.00640, section 2). ``None`` when no task has a score.
    """
    rates = [passed / scored for passed, scored in groups if scored]
    return math.fsum(rates) / len(rates) if rates else None


def task_interval(groups: Iterable[tuple[int, int]], confidence: float = 0.95) -> Interval:
    """The interval for ``mean_of_means``, from (passed, scored) of each task: ``korn_graubard`` with a rate per task.

    Tasks are the sample: attempts at one task are never counted as if they were as many tasks. With one attempt each it
    is Wilson's interval with a t quantile. Fewer than two tasks with a score: all of 0 to 1.

    A choice: tasks are never taken to be worth more than one trial each, so that the interval is never narrower than
    Wilson's for as many tasks, even where rates of tasks vary less than single attempts would (with 10 attempts each it
    can be 1.7 times as wide as by t). t would be right for tasks like those seen; but a kind of task that none of n was
    leaves no trace in their spread, and Wilson's bound is what n tasks can say of it (see ``unseen_bounds``).

    Source: as ``korn_graubard``.

    Raises:
        ValueError: more passed than were scored, or ``confidence`` is not between 0 and 1.
    """
    rates = [passed / scored for passed, scored in groups if scored]
    return korn_graubard(rates, range(len(rates)), confidence)


def _mean_at_k(estimate: Callable[[int, int, int], float | None], tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    found = [estimate(n, c, k) for n, c in tasks]
    values = [value for value in found if value is not None]
    mean = math.fsum(values) / len(values) if values else None
    return MeanAtK(value=mean, tasks=len(values), excluded=len(found) - len(values))


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k counts attempts: at least 1, not {k}")
