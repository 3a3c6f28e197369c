"""How many tasks a difference takes, before a run."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from agentbench_core import InputError
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.spending import unknown_cost
from agentbench_report.statistics import (
    connor_tasks,
    exact_power,
    exact_tasks,
    miller_tasks,
    minimum_detectable,
    minimum_detectable_mean,
    variance_components,
)
from agentbench_report.statistics.power import sign_flip_tasks, t_power, t_tasks

MOST_TASKS = 100_000
"""Where looking for a number of tasks ends."""

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
    cost_usd_per_attempt: float | None
    """``None`` when it is not known."""
    cost_unknown: str | None
    """Why it is not, in words."""
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
    """An estimate; ``None`` without a pilot that says what an attempt costs."""
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
    """Tasks by counting every outcome for pairs, by the power of the t test for repeats, which with few tasks is
    less than the formula has it; ``None``: more than 100,000."""
    available: Size | None
    """With the tasks that there are; ``None`` when nobody said how many."""
    between: float | None
    """The variance over tasks of the true difference; ``None`` for pairs."""
    chance: float | None
    """The share of tasks on which two runs of the pilot's variant differ by chance alone; ``None`` if not known."""
    pilot: Pilot | None


def look_at_pilot(run: RunCounts) -> Pilot:
    """What a run says for plans.

    Raises InputError when it says nothing: it has no record, or its answers were played back.
    """
    run = run.counted
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
    unknown = unknown_cost(run)
    cost = None if unknown else math.fsum(task.cost_usd for task in run.tasks) / attempts
    return Pilot(
        run_id=run.manifest.run_id,
        variant=run.manifest.variant,
        tasks=len(run.tasks),
        attempts=attempts,
        cost_usd_per_attempt=cost,
        cost_unknown=unknown,
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
    needed: int | None
    if repeats == 1:
        formula = connor_tasks(*shares, question.power, question.alpha)
        needed = exact_tasks(*shares, question.power, question.alpha, midp=True, at_most=MOST_TASKS)
    else:
        within = _within(pilot, repeats)
        between = max(0.0, discordance - effect**2 - 2 * within)
        formula = miller_tasks(effect, between, within, within, repeats, repeats, question.power, question.alpha)
        spread = between + 2 * within / repeats
        needed = t_tasks(effect, spread, question.power, question.alpha, at_most=MOST_TASKS)

    def size(count: int) -> Size:
        attempts = count * repeats * 2
        least: float | None
        power: float | None
        if between is None:
            least = minimum_detectable(count, discordance, question.power, question.alpha)
            power = exact_power(count, *shares, question.alpha, midp=True)
        else:
            se = math.sqrt((between + 2 * within / repeats) / count)
            least, power = by_error(se, count, effect, question)
        cost = None if pilot is None or pilot.cost_usd_per_attempt is None else attempts * pilot.cost_usd_per_attempt
        return Size(
            tasks=count,
            attempts=attempts,
            detectable=least,
            power=power,
            cost_usd=cost,
            duration_hours=None if pilot is None else attempts * pilot.duration_sec_per_attempt / 3600,
        )

    available = tasks if tasks is not None or pilot is None else pilot.tasks
    return Plan(
        question=question,
        effect=effect,
        discordance=discordance,
        repeats=repeats,
        method="pairs" if between is None else "repeats",
        formula_tasks=math.ceil(formula),
        needed=None if needed is None else size(needed),
        available=None if available is None else size(available),
        between=between,
        chance=None if pilot is None or pilot.within is None else 2 * pilot.within,
        pilot=pilot,
    )


def by_error(se: float, tasks: int, effect: float, question: Question) -> tuple[float | None, float | None]:
    """The least difference that is seen, and how often ``effect`` is, by t; never with fewer tasks than flips need."""
    if tasks < sign_flip_tasks(question.alpha):
        return None, 0.0
    if not se:
        return None, None
    least = minimum_detectable_mean(se, question.power, question.alpha, df=tasks - 1)
    return (least if least is not None and least <= 1 else None), t_power(effect, se, tasks - 1, question.alpha)


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
