"""How many tasks a difference takes, before a run; and which difference a comparison could have seen, after it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.alignment import align
from agentbench_report.reading import RunCounts, TaskCounts
from agentbench_report.statistics import (
    Interval,
    clopper_pearson,
    connor_tasks,
    exact_power,
    exact_tasks,
    mean_difference,
    miller_tasks,
    minimum_detectable,
    minimum_detectable_mean,
    variance_components,
)

Method = Literal["pairs", "repeats"]
"""``pairs``: McNemar's mid-p test on single attempts; ``repeats``: the t test on the tasks' differences."""


@attrs.frozen(kw_only=True)
class Question:
    """What one wants to see. ``power``: how often, if it is there; ``alpha``: how often, at most, if it is not."""

    power: float = 0.8
    alpha: float = 0.05
    """Two-sided."""


@attrs.frozen(kw_only=True)
class Pilot:
    """A run of before, as far as plans rest on it."""

    run_id: str
    variant: str
    tasks: int
    attempts: int
    """Recorded ones: cost and duration are means over them."""
    cost_usd_per_attempt: float
    duration_sec_per_attempt: float
    within: float | None
    """The variance of attempts at one task, mean over tasks; ``None`` when each has one attempt only."""


@attrs.frozen(kw_only=True)
class Size:
    """What a number of tasks gives, and takes."""

    tasks: int
    attempts: int
    """Of both runs together."""
    detectable: float | None
    """The least difference that is seen with the power that was asked for; ``None``: none that is possible."""
    power: float | None
    """For the effect that was asked for; ``None`` when it is not known."""
    cost_usd: float | None
    """An estimate; ``None`` without a pilot."""
    duration_hours: float | None
    """All attempts one after another, an estimate."""


@attrs.frozen(kw_only=True)
class Plan:
    """An answer before a run. Rates, effects and shares are between 0 and 1."""

    question: Question
    effect: float
    discordance: float
    """The share of tasks on which single attempts of the two variants differ."""
    repeats: int
    method: Method
    formula_tasks: int
    """Tasks by a formula: Connor's for pairs, Miller's for repeats."""
    needed: Size | None
    """Tasks by counting every outcome for pairs, by the formula for repeats; ``None``: more than 100,000."""
    available: Size | None
    """With the tasks that there are; ``None`` when nobody said how many."""
    between: float | None
    """The variance over tasks of the true difference; ``None`` for pairs."""
    chance: float | None
    """The share of tasks on which two runs of the pilot's variant differ by chance alone; ``None`` if not known."""
    pilot: Pilot | None


@attrs.frozen(kw_only=True)
class Hindsight:
    """An answer after two runs. Nothing in it depends on which of them was better."""

    question: Question
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
    detectable: float | None
    """The least difference that would have been seen with the power that was asked for; ``None``: none."""
    detectable_interval: Interval | None
    """The same at both ends of ``discordance_interval``; ``None`` where it has no answer."""
    effect: float | None
    """The effect that was declared."""
    effect_power: float | None
    """How often it would have been seen by a comparison like this one."""
    effect_tasks: int | None
    """How many tasks it would take."""


def look_at_pilot(run: RunCounts) -> Pilot:
    """What a run says for plans.

    Raises InputError when it says nothing: it has no record, or its answers were played back.
    """
    attempts = sum(len(task.repeats) for task in run.tasks)
    if not attempts:
        raise InputError(
            f"{run.view.directory} has no recorded attempt, and says nothing about cost", remedy="Give another --pilot."
        )
    if run.replayed:
        raise InputError(
            f"{run.view.directory} was replayed: that costs nothing, and attempts differ as they did before",
            remedy="Give the run that was replayed as --pilot.",
        )
    return Pilot(
        run_id=run.manifest.run_id,
        variant=run.manifest.variant,
        tasks=len(run.tasks),
        attempts=attempts,
        cost_usd_per_attempt=math.fsum(task.cost_usd for task in run.tasks) / attempts,
        duration_sec_per_attempt=math.fsum(task.duration_sec for task in run.tasks) / attempts,
        within=variance_components([_scores(task) for task in run.tasks]).within,
    )


def plan(
    question: Question,
    effect: float,
    discordance: float,
    *,
    repeats: int = 1,
    tasks: int | None = None,
    pilot: Pilot | None = None,
) -> Plan:
    """How many tasks it takes to see an effect between two variants.

    With repeats the spread of a difference is divided by what a pilot says: of ``ψ - Δ²``, the variance of the
    difference of two single attempts, twice the variance within tasks is chance, which repeats lessen; the rest lies
    between tasks, where only more tasks help (Miller, arXiv 2411.00640, equation 9).

    Raises:
        InputError: the effect cannot be at that discordance, or repeats are planned without a pilot that has some.
    """
    if effect > discordance:
        raise InputError(
            f"a difference of {effect:g} cannot be where only {discordance:g} of the tasks differ",
            remedy="The effect is the share that improves less the share that regresses, the discordance is their sum: "
            "give a smaller --effect or a larger --discordance.",
        )
    shares = (discordance - effect) / 2, (discordance + effect) / 2
    between, within = None, 0.0
    if repeats == 1:
        formula = math.ceil(connor_tasks(*shares, question.power, question.alpha))
        needed = exact_tasks(*shares, question.power, question.alpha, midp=True)
    else:
        within = _within(pilot, repeats)
        between = max(0.0, discordance - effect**2 - 2 * within)
        found = miller_tasks(effect, between, within, within, repeats, repeats, question.power, question.alpha)
        formula = needed = max(2, math.ceil(found))

    def size(count: int) -> Size:
        attempts = count * repeats * 2
        least: float | None
        power: float | None
        if between is None:
            least = minimum_detectable(count, discordance, question.power, question.alpha)
            power = exact_power(count, *shares, question.alpha, midp=True)
        else:
            se = math.sqrt((between + 2 * within / repeats) / count)
            least, power = _by_error(se, count, effect, question)
        return Size(
            tasks=count,
            attempts=attempts,
            detectable=least,
            power=power,
            cost_usd=None if pilot is None else attempts * pilot.cost_usd_per_attempt,
            duration_hours=None if pilot is None else attempts * pilot.duration_sec_per_attempt / 3600,
        )

    available = tasks if tasks is not None or pilot is None else pilot.tasks
    return Plan(
        question=question,
        effect=effect,
        discordance=discordance,
        repeats=repeats,
        method="pairs" if between is None else "repeats",
        formula_tasks=formula,
        needed=None if needed is None else size(needed),
        available=None if available is None else size(available),
        between=between,
        chance=None if pilot is None or pilot.within is None else 2 * pilot.within,
        pilot=pilot,
    )


def look_back(a: RunCounts, b: RunCounts, question: Question, effect: float | None = None) -> Hindsight:
    """What a comparison of two runs could have seen, whatever it did see.

    The power for the difference that was seen is not among it: it is another way to write the p-value (Hoenig and
    Heisey, The American Statistician 55 (2001) 19).
    """
    aligned = align(a, b)
    differences = aligned.differences()
    n = len(differences)
    discordance = error = interval = least = around = power = needed = None
    if aligned.repeated:
        error = mean_difference(differences).se
        if error:
            least, power = _by_error(error, n, effect or 0.0, question)
            needed = None if effect is None else max(2, math.ceil(n * (_reach(question) * error / effect) ** 2))
    elif n:
        table = aligned.table()
        discordance = table.discordant / n
        interval = clopper_pearson(table.discordant, n)
        least = minimum_detectable(n, discordance, question.power, question.alpha)
        ends = [minimum_detectable(n, end, question.power, question.alpha) for end in (interval.low, interval.high)]
        if ends[0] is not None and ends[1] is not None:
            around = Interval(low=ends[0], high=ends[1], confidence=interval.confidence)
        if effect is not None:
            # An effect that was declared needs at least as many tasks that differ as it is large.
            psi = max(discordance, effect)
            shares = (psi - effect) / 2, (psi + effect) / 2
            power = exact_power(n, *shares, question.alpha, midp=True)
            needed = exact_tasks(*shares, question.power, question.alpha, midp=True)
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
        detectable=least,
        detectable_interval=around,
        effect=effect,
        effect_power=None if effect is None else power,
        effect_tasks=needed,
    )


def _by_error(se: float, tasks: int, effect: float, question: Question) -> tuple[float | None, float | None]:
    """The least difference that is seen, and how often ``effect`` is.

    The latter is ``Φ(Δ/se - z)``, a little too much for few tasks.
    """
    if tasks < 2 or not se:
        return None, None
    least = minimum_detectable_mean(se, question.power, question.alpha)
    power = NormalDist().cdf(effect / se - NormalDist().inv_cdf(1 - question.alpha / 2))
    return (least if least is not None and least <= 1 else None), power


def _reach(question: Question) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - question.alpha / 2) + normal.inv_cdf(question.power)


def _within(pilot: Pilot | None, repeats: int) -> float:
    if pilot is None or pilot.within is None:
        lacking = "there is no pilot" if pilot is None else f"the pilot {pilot.run_id} has one attempt per task"
        raise InputError(
            f"how much {repeats} repeats help depends on how much attempts at one task differ, and {lacking}",
            remedy="Give a run with several repeats as --pilot (agentbench run --repeats 3 ...).",
        )
    return pilot.within


def _scores(task: TaskCounts) -> list[float]:
    return [1.0] * task.passed + [0.0] * (task.scored - task.passed)
