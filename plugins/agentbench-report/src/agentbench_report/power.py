"""Power analysis before a run: the number of tasks required to detect a difference."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from agentbench_core import InputError
from agentbench_report.counts import RunCounts, TaskCounts
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

MAX_TASKS = 100_000
"""The upper limit of the search for a number of tasks."""

Method = Literal["pairs", "repeats"]
"""``pairs``: McNemar's mid-p test on single attempts; ``repeats``: the t test on per-task differences."""


@attrs.frozen(kw_only=True)
class Question:
    """The required power and significance level."""

    power: float = 0.8
    """The probability of detecting a difference that exists."""
    alpha: float = 0.05
    """The maximum probability, two-sided, of detecting a difference that does not exist."""


@attrs.frozen(kw_only=True)
class Pilot:
    """Estimates from an earlier run."""

    run_id: str
    variant: str
    tasks: int
    attempts: int
    """The number of recorded attempts, over which cost and duration are averaged."""
    cost_usd_per_attempt: float | None
    """``None`` if unknown."""
    cost_unknown: str | None
    """Why the cost is unknown, as text; ``None`` if it is known."""
    duration_sec_per_attempt: float
    within: float | None
    """The variance of attempts at one task, averaged over tasks; ``None`` with one attempt per task."""


@attrs.frozen(kw_only=True)
class Size:
    """The power and the cost for a number of tasks."""

    tasks: int
    attempts: int
    """The number of attempts in both runs together."""
    detectable: float | None
    """The minimum detectable effect at the requested power; ``None`` if there is none."""
    power: float | None
    """The power for the requested effect; ``None`` if unknown."""
    cost_usd: float | None
    """The estimated cost; ``None`` unless the cost of a pilot is known."""
    duration_hours: float | None
    """The estimated duration of all attempts, run one after another; ``None`` without a pilot."""


@attrs.frozen(kw_only=True)
class Plan:
    """A power analysis before a run. Rates, effects and shares are between 0 and 1."""

    question: Question
    effect: float
    discordance: float
    """The share of tasks on which single attempts of the two variants differ."""
    repeats: int
    method: Method
    formula_tasks: int
    """The number of tasks according to Connor's formula for pairs, or Miller's for repeats."""
    needed: Size | None
    """The required number of tasks, by enumeration for pairs, and for repeats from the power of the t test, which is
    lower with few tasks than the formula assumes. ``None`` if it exceeds 100,000."""
    available: Size | None
    """The power and the cost for the available tasks; ``None`` if their number is unknown."""
    between: float | None
    """The variance of the true difference across tasks; ``None`` for pairs."""
    chance: float | None
    """The share of tasks on which two runs of the pilot's variant differ by chance alone; ``None`` if unknown."""
    pilot: Pilot | None


def read_pilot(run: RunCounts) -> Pilot:
    """Estimate cost, duration and variance from a run.

    Raises:
        InputError: the run has no records, or was replayed.
    """
    run = run.counted
    attempts = sum(len(task.repeats) for task in run.tasks)
    if not attempts:
        raise InputError(f"{run.view.directory} has no recorded attempts", remedy="Pass another run as --pilot.")
    if run.replayed:
        raise InputError(
            f"{run.view.directory} was replayed, so it cannot be used to estimate cost and variance",
            remedy="Pass the original run as --pilot.",
        )
    unknown = run.unknown_cost or None
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
    """Compute how many tasks are required to detect an effect between two variants.

    With repeats, the pilot is used to split the variance of a difference, which is ``ψ - Δ²`` for two single attempts.
    Twice the variance within tasks is due to chance, which repeats reduce. The rest is the variance between tasks,
    against which only more tasks help (Miller, arXiv 2411.00640, equation 9).

    Raises:
        InputError: the effect is larger than the discordance, or ``repeats`` is above 1 without a pilot with repeats.
    """
    if effect > discordance:
        raise InputError(
            f"an effect of {effect:g} is not possible with a discordance of {discordance:g}",
            remedy="The effect is the share of tasks that improve minus the share that regress, and the discordance is "
            "their sum. Pass a smaller --effect or a larger --discordance.",
        )
    shares = (discordance - effect) / 2, (discordance + effect) / 2
    between, within = None, 0.0
    needed: int | None
    if repeats == 1:
        formula = connor_tasks(*shares, question.power, question.alpha)
        needed = exact_tasks(*shares, question.power, question.alpha, midp=True, at_most=MAX_TASKS)
    else:
        within = _within(pilot, repeats)
        between = max(0.0, discordance - effect**2 - 2 * within)
        formula = miller_tasks(effect, between, within, within, repeats, repeats, question.power, question.alpha)
        spread = between + 2 * within / repeats
        needed = t_tasks(effect, spread, question.power, question.alpha, at_most=MAX_TASKS)

    def size(count: int) -> Size:
        attempts = count * repeats * 2
        least: float | None
        power: float | None
        if between is None:
            least = minimum_detectable(count, discordance, question.power, question.alpha)
            power = exact_power(count, *shares, question.alpha, midp=True)
        else:
            se = math.sqrt((between + 2 * within / repeats) / count)
            least, power = detectable_and_power(se, count, effect, question)
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


def detectable_and_power(se: float, tasks: int, effect: float, question: Question) -> tuple[float | None, float | None]:
    """The minimum detectable effect and the power for ``effect`` of a t test with a standard error of ``se``.

    No difference is detectable with fewer tasks than a sign-flip test requires. Otherwise, both are ``None`` if ``se``
    is 0.
    """
    if tasks < sign_flip_tasks(question.alpha):
        return None, 0.0
    if not se:
        return None, None
    least = minimum_detectable_mean(se, question.power, question.alpha, df=tasks - 1)
    return (least if least is not None and least <= 1 else None), t_power(effect, se, tasks - 1, question.alpha)


def _within(pilot: Pilot | None, repeats: int) -> float:
    if pilot is None or pilot.within is None:
        problem = "there is no pilot" if pilot is None else f"the pilot {pilot.run_id} has one attempt per task"
        raise InputError(
            f"planning {repeats} repeats requires the variance between attempts at one task, but {problem}",
            remedy="Pass a run with several repeats as --pilot (agentbench run --repeats 3 ...).",
        )
    return pilot.within


def _scores(task: TaskCounts) -> list[float]:
    return [1.0] * task.passed + [0.0] * (task.scored - task.passed)
