"""Post-hoc power: the difference that an existing comparison could have detected."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.detectable import POWER, DetectableEffect, detectable
from agentbench_report.comparison.estimates import Question as Estimation, estimate
from agentbench_report.counts import RunCounts
from agentbench_report.power import MAX_TASKS, Method, Question, detectable_and_power
from agentbench_report.statistics import (
    Interval,
    clopper_pearson,
    exact_power,
    exact_tasks,
    mean_difference,
    minimum_detectable,
)
from agentbench_report.statistics.power import t_tasks


@attrs.frozen(kw_only=True)
class PostHocPower:
    """The power of a comparison of two runs. It does not depend on which run was better."""

    question: Question
    """The power is always 0.8, as in all comparisons."""
    run_a: str
    run_b: str
    method: Method
    tasks: int
    """The number of tasks with a score in both runs."""
    incomplete: int
    """The number of tasks in both runs that have an attempt without a score in either run."""
    discordance: float | None
    """The share of discordant tasks; ``None`` with repeats, or without tasks."""
    discordance_interval: Interval | None
    """The Clopper-Pearson interval of ``discordance``."""
    se: float | None
    """The standard error of the difference; ``None`` without repeats, or with fewer than two tasks."""
    nonzero: int
    """The number of tasks on which the runs differ."""
    least_nonzero: int
    """The minimum number of differing tasks with which the test can reach significance."""
    detectable: float | None
    """The minimum detectable effect, as in ``agentbench report paired``; ``None`` if there is none."""
    at_best: float | None
    """The minimum detectable effect if all discordant tasks had changed in the same direction, whatever their number;
    ``None`` with repeats, or if there is none."""
    detectable_interval: Interval | None
    """``detectable`` at both ends of ``discordance_interval``; ``None`` if it is undefined there."""
    effect: float | None
    """The declared effect."""
    effect_power: float | None
    """The power of a comparison like this one for ``effect``; ``None`` without an effect, or if it is unknown."""
    effect_tasks: int | None
    """The number of tasks required to detect ``effect``; ``None`` if it is unknown or above 100,000."""


def post_hoc_power(a: RunCounts, b: RunCounts, alpha: float = 0.05, effect: float | None = None) -> PostHocPower:
    """Compute what a comparison of two runs could have detected, consistent with ``agentbench report paired``.

    The power for the observed difference is not included, as it only restates the p-value (Hoenig and Heisey, The
    American Statistician 55 (2001) 19).
    """
    aligned, question = align(a, b), Question(power=POWER, alpha=alpha)
    differences = aligned.differences()
    n, error = len(differences), mean_difference(differences).se if aligned.repeated else None
    least = _detectable(aligned, differences, alpha)
    discordance = interval = least_interval = power = needed = None
    if aligned.repeated:
        spread_known = least.nonzero >= least.least_nonzero or n < least.least_nonzero
        if error and effect is not None and spread_known:
            _, power = detectable_and_power(error, n, effect, question)
            needed = t_tasks(effect, n * error**2, question.power, alpha, at_most=MAX_TASKS)
    elif n:
        table = aligned.table()
        discordance = table.discordant / n
        interval = clopper_pearson(table.discordant, n)
        ends = [minimum_detectable(n, end, question.power, alpha) for end in (interval.low, interval.high)]
        if least.difference is not None and ends[0] is not None and ends[1] is not None:
            least_interval = Interval(low=ends[0], high=ends[1], confidence=interval.confidence)
        if effect is not None:
            psi = max(discordance, effect)  # the discordance cannot be smaller than the effect
            shares = (psi - effect) / 2, (psi + effect) / 2
            power = exact_power(n, *shares, alpha, midp=True)
            needed = exact_tasks(*shares, question.power, alpha, midp=True, at_most=MAX_TASKS)
    return PostHocPower(
        question=question,
        run_a=a.manifest.run_id,
        run_b=b.manifest.run_id,
        method="repeats" if aligned.repeated else "pairs",
        tasks=n,
        incomplete=len(aligned.incomplete),
        discordance=discordance,
        discordance_interval=interval,
        se=error,
        nonzero=least.nonzero,
        least_nonzero=least.least_nonzero,
        detectable=least.difference,
        at_best=least.at_best,
        detectable_interval=least_interval,
        effect=effect,
        effect_power=None if effect is None else power,
        effect_tasks=needed,
    )


def _detectable(aligned: Alignment, differences: Sequence[float], alpha: float) -> DetectableEffect:
    """The minimum detectable effect of the test in ``paired``. One resample is enough, since p is not used."""
    settings = Estimation(method="means" if aligned.repeated else "mcnemar", confidence=1 - alpha, resamples=1, seed=0)
    return detectable(estimate(aligned, settings), differences, settings)
