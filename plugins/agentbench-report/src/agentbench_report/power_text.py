"""What takes how many tasks, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from agentbench_report.power import Hindsight, Pilot, Plan, Question, Size
from agentbench_report.text import Cell, markdown_table, plain

_NOT_SEEN_POWER = (
    "This is the power for a difference that was declared, not for the one that was seen: that would be the p-value in "
    "other words (Hoenig and Heisey, The American Statistician 55 (2001) 19)."
)
_GUESSED = (
    "The share of tasks that differ is assumed. `agentbench report power --run-a A --run-b B` says what it was in a "
    "comparison that you have made."
)


def plan_markdown(plan: Plan) -> str:
    """How many tasks, what there is, and what it costs."""
    attempts = "1 attempt" if plan.repeats == 1 else f"{plan.repeats} attempts"
    effect, often = _points(plan.effect), _often(plan.question)
    needed = "More than 100,000 tasks" if plan.needed is None else f"{plan.needed.tasks:,} tasks"
    parts = [
        f"# {needed}, to see a difference of {effect}",
        f"With {attempts} per task and run, where single attempts differ on {_share(plan.discordance)} of the tasks, "
        f"it is then seen {often}.",
        "\n".join(_how(plan)),
        _sizes(plan),
    ]
    if plan.chance is not None and plan.chance > plan.discordance:
        parts.append(
            f"**{_share(plan.discordance)} is too little to assume:** attempts of the pilot at one task differ so much "
            f"that two runs of its variant alone differ on {_share(plan.chance)} of the tasks. Give --discordance."
        )
    if plan.pilot is not None:
        parts.append(_estimated(plan.pilot))
    return "\n\n".join([*parts, _GUESSED]) + "\n"


def _how(plan: Plan) -> Iterator[str]:
    if plan.between is None:
        yield (
            f"The number is that of McNemar's mid-p test, by counting every outcome; Connor's formula says "
            f"{plan.formula_tasks:,}."
        )
        return
    assert plan.pilot is not None
    assert plan.pilot.within is not None
    chance = 2 * plan.pilot.within / plan.repeats
    yield (
        f"The number is Miller's, for a t test over tasks. Of the variance of a task's difference, {plan.between:.4f} "
        f"lies between tasks, where only more tasks help, and {chance:.4f} is chance, which more repeats lessen."
    )


def _sizes(plan: Plan) -> str:
    header = ("", "tasks", "attempts in both runs", "least difference seen", f"power for {_points(plan.effect)}")
    rows = [_size(name, size) for name, size in (("needed", plan.needed), ("there are", plan.available)) if size]
    return markdown_table((*header, "USD, estimated", "hours, estimated"), rows)


def _size(name: str, size: Size) -> tuple[Cell, ...]:
    least = "none" if size.detectable is None else _points(size.detectable)
    power = None if size.power is None else _share(size.power)
    cost = None if size.cost_usd is None else f"{size.cost_usd:.2f}"
    hours = None if size.duration_hours is None else f"{size.duration_hours:.1f}"
    return (name, size.tasks, size.attempts, least, power, cost, hours)


def _estimated(pilot: Pilot) -> str:
    each = f"{pilot.cost_usd_per_attempt:.4f} USD and {pilot.duration_sec_per_attempt:.1f} s"
    return (
        f"Cost and time are estimates: {each}, the means of the {pilot.attempts} recorded attempts of "
        f"{plain(pilot.variant)} in run {plain(pilot.run_id)}, times the number of attempts, for both variants alike. "
        "Hours are those of all attempts one after another."
    )


def hindsight_markdown(seen: Hindsight) -> str:
    """What two runs could have told."""
    parts = ["# What this comparison could have seen", f"Run {plain(seen.run_a)} (A) and run {plain(seen.run_b)} (B)."]
    parts += [_detectable(seen), *_effect(seen)]
    if seen.incomplete:
        parts.append(
            f"In {seen.incomplete} tasks an attempt has no score; tasks without a score on either side are not counted."
        )
    return "\n\n".join(parts) + "\n"


def _detectable(seen: Hindsight) -> str:
    often = _often(seen.question)
    if not seen.tasks:
        return "No task has a score in both runs: nothing could have been seen."
    if seen.method == "repeats":
        if seen.se is None or not seen.se:
            return f"All differences over {seen.tasks} tasks are equal: how far they spread is not known."
        known = f"Over {seen.tasks} tasks the difference has a standard error of {_points(seen.se)}"
        if seen.detectable is None:
            return f"{known}: no difference could have been seen {often}."
        return f"{known}. Only a difference of at least **{_points(seen.detectable)}** would have been seen {often}."
    assert seen.discordance is not None
    assert seen.discordance_interval is not None
    known = f"Of {seen.tasks} tasks {_share(seen.discordance)} differed"
    if seen.detectable is None:
        return f"{known}: with so few, no difference could have been seen {often}."
    told = f"{known}. Only a difference of at least **{_points(seen.detectable)}** would have been seen {often}."
    around = seen.detectable_interval
    if around is None:
        return told
    share, sure = seen.discordance_interval, _share(around.confidence)
    return (
        f"{told} The share that differs is known to lie between {_share(share.low)} and {_share(share.high)} ({sure} "
        f"Clopper-Pearson interval); at its ends the difference is {_points(around.low)} and {_points(around.high)}."
    )


def _effect(seen: Hindsight) -> Iterator[str]:
    if seen.effect is None:
        yield "With --effect it is said how often a difference that matters to you would have been seen."
        return
    if seen.effect_power is None:
        yield f"How often a difference of {_points(seen.effect)} would have been seen is not known."
        return
    takes = "more than 100,000" if seen.effect_tasks is None else f"{seen.effect_tasks:,}"
    yield (
        f"A difference of {_points(seen.effect)} would have been seen **{_share(seen.effect_power)}** of the time; it "
        f"takes {takes} such tasks to see it {_share(seen.question.power)} of the time."
    )
    yield _NOT_SEEN_POWER


def _often(question: Question) -> str:
    return f"{_share(question.power)} of the time, at a two-sided level of {_share(question.alpha)}"


def _share(share: float) -> str:
    return f"{100 * share:.3g}%"


def _points(share: float) -> str:
    return f"{100 * share:.3g} points"
