"""What takes how many tasks, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from agentbench_report.hindsight import Hindsight
from agentbench_report.power import Pilot, Plan, Question, Size
from agentbench_report.statistics.power import sign_flip_tasks
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
        _how(plan),
    ]
    if plan.needed or plan.available:
        parts.append(_sizes(plan))
    if plan.chance is not None and plan.chance > plan.discordance:
        parts.append(
            f"**{_share(plan.discordance)} is too little to assume:** attempts of the pilot at one task differ so much "
            f"that two runs of its variant alone differ on {_share(plan.chance)} of the tasks. Give --discordance."
        )
    if plan.pilot is not None:
        parts.append(_estimated(plan.pilot))
    return "\n\n".join([*parts, _GUESSED]) + "\n"


def _how(plan: Plan) -> str:
    formula = f"{plan.formula_tasks:,}"
    if plan.between is None:
        if plan.needed is None:
            return f"So many are not counted any more. Connor's formula says {formula}."
        return (
            f"The number is that of McNemar's mid-p test, by counting every outcome; Connor's formula says {formula}."
        )
    assert plan.pilot is not None
    assert plan.pilot.within is not None
    chance = 2 * plan.pilot.within / plan.repeats
    number = "So many are not counted any more" if plan.needed is None else "The number is that of a t test over tasks"
    return (
        f"{number}; Miller's formula, which takes the spread for known, says {formula}. Of the variance of a task's "
        f"difference, {plan.between:.4f} lies between tasks, where only more tasks help, and {chance:.4f} is chance, "
        f"which more repeats lessen. {_floor(plan.question)}"
    )


def _floor(question: Question) -> str:
    return (
        f"Fewer than {sign_flip_tasks(question.alpha)} tasks can tell nothing: no flip of their signs is rare enough."
    )


def _sizes(plan: Plan) -> str:
    header = ("", "tasks", "attempts in both runs", "least difference seen", f"power for {_points(plan.effect)}")
    known = plan.pilot is None or plan.pilot.cost_usd_per_attempt is not None
    rows = [_size(name, size, known) for name, size in (("needed", plan.needed), ("there are", plan.available)) if size]
    return markdown_table((*header, "USD, estimated", "hours, estimated"), rows)


def _size(name: str, size: Size, known: bool) -> tuple[Cell, ...]:
    least = "none" if size.detectable is None else _points(size.detectable)
    power = None if size.power is None else _share(size.power)
    cost = (None if known else "not known") if size.cost_usd is None else f"{size.cost_usd:.2f}"
    hours = None if size.duration_hours is None else f"{size.duration_hours:.1f}"
    return (name, size.tasks, size.attempts, least, power, cost, hours)


def _estimated(pilot: Pilot) -> str:
    usd = pilot.cost_usd_per_attempt
    cost = "USD not known" if usd is None else f"{usd:.4f} USD"
    unknown = f" What an attempt costs is not known: {pilot.cost_unknown}." if pilot.cost_unknown else ""
    return (
        f"Cost and time are estimates: {cost} and {pilot.duration_sec_per_attempt:.1f} s, the means of the "
        f"{pilot.attempts} recorded attempts of {plain(pilot.variant)} in run {plain(pilot.run_id)}, times the number "
        f"of attempts, for both variants alike. Hours are those of all attempts one after another.{unknown}"
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
    if seen.tasks == 1:
        return "There is one task with a score in both runs: from one, nothing can be told."
    differed = f"{seen.nonzero} of {seen.tasks} tasks differed"
    if seen.nonzero < seen.least_nonzero:
        few = (
            f"{differed}. With fewer than {seen.least_nonzero} that do, the test cannot tell a difference, even if "
            "all go one way"
        )
        if seen.at_best is None:
            return f"{few}."
        return (
            f"{few}. What could have been seen {often}: a difference of at least **{_points(seen.at_best)}**, had all "
            "tasks that differ gone one way."
        )
    if seen.method == "repeats":
        if not seen.se:
            return f"All {seen.tasks} tasks differ by the same: how far differences spread is not known."
        known = f"Over {seen.tasks} tasks the difference has a standard error of {_points(seen.se)}"
        if seen.detectable is None:
            return f"{known}: no difference could have been seen {often}."
        return f"{known}. Only a difference of at least **{_points(seen.detectable)}** would have been seen {often}."
    assert seen.discordance is not None
    assert seen.discordance_interval is not None
    known = f"{differed}, {_share(seen.discordance)}"
    if seen.detectable is None:
        best = "" if seen.at_best is None else f", unless all that differ go one way: then {_points(seen.at_best)}"
        return f"{known}: at this share no difference could have been seen {often}{best}."
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
