"""Which difference a comparison could have seen, after it was made."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.detectable import POWER, Detectable, detectable
from agentbench_report.comparison.estimates import Question as Estimation, estimate
from agentbench_report.counts import RunCounts
from agentbench_report.power import MOST_TASKS, Method, Question, by_error
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
class Hindsight:
    """An answer after two runs. Nothing in it depends on which of them was better."""

    question: Question
    """Its power is that of all comparisons: four times of five."""
    run_a: str
    run_b: str
    method: Method
    tasks: int
    """With a score in both runs."""
    incomplete: int
    """Tasks of both runs in which an attempt has no score."""
    discordance: float | None
    """The share of tasks that differed; ``None`` for repeats, and without a task."""
    discordance_interval: Interval | None
    """Clopper and Pearson's."""
    se: float | None
    """The standard error of the difference, for repeats."""
    nonzero: int
    """Tasks that differed."""
    least_nonzero: int
    """With fewer that differ, the test that decides can tell nothing."""
    detectable: float | None
    """The least difference that would have been seen, as ``agentbench report paired`` says it; ``None``: none."""
    at_best: float | None
    """The same if all tasks that differ had gone one way, whatever their share; ``None`` for repeats, or if none."""
    detectable_interval: Interval | None
    """The same at both ends of ``discordance_interval``; ``None`` where it has no answer."""
    effect: float | None
    """The effect that was declared."""
    effect_power: float | None
    """How often it would have been seen by a comparison like this one; ``None`` where the spread is not known."""
    effect_tasks: int | None
    """How many tasks it would take."""


def look_back(a: RunCounts, b: RunCounts, alpha: float = 0.05, effect: float | None = None) -> Hindsight:
    """What a comparison of two runs could have seen, whatever it did see: as ``agentbench report paired`` says it.

    The power for the difference that was seen is not among it: it is another way to write the p-value (Hoenig and
    Heisey, The American Statistician 55 (2001) 19).
    """
    aligned, question = align(a, b), Question(power=POWER, alpha=alpha)
    differences = aligned.differences()
    n, error = len(differences), mean_difference(differences).se if aligned.repeated else None
    could = _could_have(aligned, differences, alpha)
    discordance = interval = around = power = needed = None
    if aligned.repeated:
        told = could.nonzero >= could.least_nonzero or n < could.least_nonzero
        if error and effect is not None and told:  # with few that differ the spread is not known
            _, power = by_error(error, n, effect, question)
            needed = t_tasks(effect, n * error**2, question.power, alpha, at_most=MOST_TASKS)
    elif n:
        table = aligned.table()
        discordance = table.discordant / n
        interval = clopper_pearson(table.discordant, n)
        ends = [minimum_detectable(n, end, question.power, alpha) for end in (interval.low, interval.high)]
        if could.difference is not None and ends[0] is not None and ends[1] is not None:
            around = Interval(low=ends[0], high=ends[1], confidence=interval.confidence)
        if effect is not None:
            # An effect that was declared needs at least as many tasks that differ as it is large.
            psi = max(discordance, effect)
            shares = (psi - effect) / 2, (psi + effect) / 2
            power = exact_power(n, *shares, alpha, midp=True)
            needed = exact_tasks(*shares, question.power, alpha, midp=True, at_most=MOST_TASKS)
    return Hindsight(
        question=question,
        run_a=a.manifest.run_id,
        run_b=b.manifest.run_id,
        method="repeats" if aligned.repeated else "pairs",
        tasks=n,
        incomplete=len(aligned.incomplete),
        discordance=discordance,
        discordance_interval=interval,
        se=error,
        nonzero=could.nonzero,
        least_nonzero=could.least_nonzero,
        detectable=could.difference,
        at_best=could.at_best,
        detectable_interval=around,
        effect=effect,
        effect_power=None if effect is None else power,
        effect_tasks=needed,
    )


def _could_have(aligned: Alignment, differences: Sequence[float], alpha: float) -> Detectable:
    """By the test that ``paired`` decides by; p is not asked for, so that nothing need be drawn often."""
    asked = Estimation(method="means" if aligned.repeated else "mcnemar", confidence=1 - alpha, resamples=1, seed=0)
    return detectable(estimate(aligned, asked), differences, asked)
