"""Pass rates over tasks with several attempts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

from agentbench_report.statistics.binomial import check_counts
from agentbench_report.statistics.clusters import korn_graubard
from agentbench_report.statistics.interval import Interval


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """An unbiased estimate of the probability that at least one of ``k`` attempts passes (pass@k).

    With ``c`` passes in ``n`` attempts: ``1 - C(n-c, k) / C(n, k)``. ``None`` if ``k > n``, since it cannot be
    estimated. (``1 - (1 - c/n)^k`` is biased.)

    Source: M. Chen et al., Evaluating large language models trained on code, arXiv 2107.03374, equation 1.

    Raises:
        ValueError: ``c`` is not within 0 to ``n``, or ``k`` is below 1.
    """
    check_counts(c, n)
    _check_k(k)
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways if k <= n else None


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """An unbiased estimate of the probability that all of ``k`` attempts pass (pass^k).

    With ``c`` passes in ``n`` attempts: ``C(c, k) / C(n, k)``; ``None`` when ``k > n``.

    Source: S. Yao et al., tau-bench, arXiv 2406.12045, section 4.

    Raises:
        ValueError: ``c`` is not within 0 to ``n``, or ``k`` is below 1.
    """
    check_counts(c, n)
    _check_k(k)
    return math.comb(c, k) / math.comb(n, k) if k <= n else None


@attrs.frozen(kw_only=True)
class MeanAtK:
    """A mean over tasks, the number of tasks included, and the number with too few attempts."""

    value: float | None
    tasks: int
    excluded: int


def mean_pass_at_k(tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    """The mean over tasks of ``pass_at_k``, from each task's (attempts, passes). All tasks have the same weight.

    Tasks with fewer than ``k`` attempts are excluded and counted. For an interval, resample tasks.

    Raises:
        ValueError: as for ``pass_at_k``.
    """
    return _mean_at_k(pass_at_k, tasks, k)


def mean_pass_hat_k(tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    """The mean over tasks of ``pass_hat_k``, from each task's (attempts, passes); see ``mean_pass_at_k``.

    Raises:
        ValueError: as for ``pass_hat_k``.
    """
    return _mean_at_k(pass_hat_k, tasks, k)


def mean_of_means(groups: Iterable[tuple[int, int]]) -> float | None:
    """The mean over tasks of each task's pass rate, from (passed, scored). Tasks without a score are left out.

    All tasks have the same weight regardless of the number of scored attempts (macro average; E. Miller, Adding error
    bars to evals, arXiv 2411.00640, section 2). ``None`` if no task has a score.
    """
    rates = [passed / scored for passed, scored in groups if scored]
    return math.fsum(rates) / len(rates) if rates else None


def task_interval(groups: Iterable[tuple[int, int]], confidence: float = 0.95) -> Interval:
    """The interval for ``mean_of_means``, from (passed, scored) of each task: ``korn_graubard`` with a rate per task.

    Tasks are the sample: several attempts at one task never count as several tasks. With one attempt each, it is
    Wilson's interval with a t quantile. With fewer than two scored tasks, it is 0 to 1.

    By design each task counts as at most one trial, so the interval is never narrower than Wilson's for the same number
    of tasks, even if task rates vary less than single attempts would (with 10 attempts each it can be 1.7 times as wide
    as the t interval). The t interval would be right for tasks like those observed. But a kind of task that is absent
    from the sample does not affect the spread, and Wilson's bound allows for it (see ``unseen_bounds``).

    Source: as ``korn_graubard``.

    Raises:
        ValueError: ``passed`` exceeds ``scored`` for a task, or ``confidence`` is not between 0 and 1.
    """
    rates = [passed / scored for passed, scored in groups if scored]
    return korn_graubard(rates, range(len(rates)), confidence)


def _mean_at_k(estimate: Callable[[int, int, int], float | None], tasks: Iterable[tuple[int, int]], k: int) -> MeanAtK:
    estimates = [estimate(n, c, k) for n, c in tasks]
    values = [value for value in estimates if value is not None]
    mean = math.fsum(values) / len(values) if values else None
    return MeanAtK(value=mean, tasks=len(values), excluded=len(estimates) - len(values))


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
