"""Format a power analysis as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from agentbench_core import MarkdownCell, escape_markdown, markdown_table
from agentbench_report.post_hoc_power import PostHocPower
from agentbench_report.power import Pilot, Plan, Question, Size
from agentbench_report.statistics.power import sign_flip_tasks

_DECLARED_EFFECT = (
    "This is the power for the declared difference. The power for the observed difference would only restate the "
    "p-value (Hoenig and Heisey, The American Statistician 55 (2001) 19)."
)
_ASSUMED_DISCORDANCE = (
    "The share of tasks with different outcomes is an assumption. For the share in an existing comparison, run: "
    "`agentbench report power --run-a A --run-b B`"
)


def plan_markdown(plan: Plan) -> str:
    """The number of tasks required, the result for the available tasks, and the estimated cost."""
    attempts = "1 attempt" if plan.repeats == 1 else f"{plan.repeats} attempts"
    needed = "More than 100,000 tasks" if plan.needed is None else f"{plan.needed.tasks:,} tasks"
    parts = [
        f"# {needed} required to detect a difference of {_pp(plan.effect)}",
        f"Assumptions: {attempts} per task and run, different outcomes of single attempts on "
        f"{_share(plan.discordance)} of the tasks, {_level(plan.question)}.",
        _method(plan),
    ]
    if plan.needed or plan.available:
        parts.append(_sizes(plan))
    if plan.chance is not None and plan.chance > plan.discordance:
        parts.append(
            f"**A discordance of {_share(plan.discordance)} is too low:** the pilot's attempts at one task vary so "
            f"much that two runs of its variant would have different outcomes on {_share(plan.chance)} of the tasks. "
            "Pass a larger --discordance."
        )
    if plan.pilot is not None:
        parts.append(_estimates(plan.pilot))
    return "\n\n".join([*parts, _ASSUMED_DISCORDANCE]) + "\n"


def _method(plan: Plan) -> str:
    formula = f"{plan.formula_tasks:,}"
    if plan.between is None:
        if plan.needed is None:
            return f"The exact number is not computed above 100,000. Connor's formula gives {formula}."
        return (
            "The number of tasks is computed for McNemar's mid-p test by enumerating all outcomes. "
            f"Connor's formula gives {formula}."
        )
    assert plan.pilot is not None
    assert plan.pilot.within is not None
    chance = 2 * plan.pilot.within / plan.repeats
    number = "The number of tasks is computed for a t test over tasks."
    if plan.needed is None:
        number = "The exact number is not computed above 100,000."
    return (
        f"{number} Miller's formula, which assumes a known variance, gives {formula}. The variance of a task's "
        f"difference consists of {plan.between:.4f} between tasks, which only more tasks can reduce, and {chance:.4f} "
        f"due to chance, which more repeats can also reduce. {_minimum(plan.question)}"
    )


def _minimum(question: Question) -> str:
    return f"With fewer than {sign_flip_tasks(question.alpha)} tasks, no difference can reach significance."


def _sizes(plan: Plan) -> str:
    header = ("", "tasks", "attempts in both runs", "minimum detectable effect", f"power for {_pp(plan.effect)}")
    cost_known = plan.pilot is None or plan.pilot.cost_usd_per_attempt is not None
    sizes = (("required", plan.needed), ("available", plan.available))
    rows = [_size(name, size, cost_known) for name, size in sizes if size]
    return markdown_table((*header, "estimated USD", "estimated hours"), rows)


def _size(name: str, size: Size, cost_known: bool) -> tuple[MarkdownCell, ...]:
    least = "none" if size.detectable is None else _pp(size.detectable)
    power = None if size.power is None else _share(size.power)
    cost = (None if cost_known else "unknown") if size.cost_usd is None else f"{size.cost_usd:.2f}"
    hours = None if size.duration_hours is None else f"{size.duration_hours:.1f}"
    return (name, size.tasks, size.attempts, least, power, cost, hours)


def _estimates(pilot: Pilot) -> str:
    usd = pilot.cost_usd_per_attempt
    cost = "an unknown cost" if usd is None else f"{usd:.4f} USD"
    unknown = f" The cost per attempt is unknown: {pilot.cost_unknown}." if pilot.cost_unknown else ""
    return (
        f"Cost and time are estimated from the {pilot.attempts} recorded attempts of {escape_markdown(pilot.variant)} "
        f"in run {escape_markdown(pilot.run_id)}. Means per attempt, assumed for both variants: {cost} and "
        f"{pilot.duration_sec_per_attempt:.1f} s. Hours assume that attempts run one after another.{unknown}"
    )


def post_hoc_markdown(result: PostHocPower) -> str:
    """The difference that a comparison of two runs could have detected."""
    parts = [
        "# Minimum detectable effect of this comparison",
        f"Run {escape_markdown(result.run_a)} (A) and run {escape_markdown(result.run_b)} (B).",
        _detectable(result),
        *_effect(result),
    ]
    if result.incomplete:
        parts.append(
            f"Tasks with an attempt that has no score: {result.incomplete}. Tasks without any score in one of the runs "
            "are not counted."
        )
    return "\n\n".join(parts) + "\n"


def _detectable(result: PostHocPower) -> str:
    level = _level(result.question)
    if not result.tasks:
        return "No task has a score in both runs, so no difference could have been detected."
    if result.tasks == 1:
        return "Only one task has a score in both runs, so no difference could have been detected."
    differed = f"{result.nonzero} of {result.tasks} tasks had different results"
    if result.nonzero < result.least_nonzero:
        too_few = (
            f"{differed}. With fewer than {result.least_nonzero} discordant tasks, no difference can reach "
            "significance, even if all of them change in the same direction."
        )
        if result.at_best is None:
            return too_few
        return (
            f"{too_few} Minimum detectable effect if all discordant tasks change in the same direction: "
            f"**{_pp(result.at_best)}** at {level}."
        )
    if result.method == "repeats":
        if not result.se:
            return f"All {result.tasks} tasks differ by the same amount, so the spread of differences is unknown."
        error = f"Over {result.tasks} tasks, the difference has a standard error of {_pp(result.se)}"
        if result.detectable is None:
            return f"{error}. No difference could have been detected at {level}."
        return f"{error}. Minimum detectable effect: **{_pp(result.detectable)}** at {level}."
    assert result.discordance is not None
    assert result.discordance_interval is not None
    share = f"{differed} ({_share(result.discordance)})"
    if result.detectable is None:
        best = ""
        if result.at_best is not None:
            best = (
                " If all discordant tasks change in the same direction, the minimum detectable effect is "
                f"{_pp(result.at_best)}."
            )
        return f"{share}. With this share, no difference could have been detected at {level}.{best}"
    least = f"{share}. Minimum detectable effect: **{_pp(result.detectable)}** at {level}."
    bounds = result.detectable_interval
    if bounds is None:
        return least
    shares = result.discordance_interval
    return (
        f"{least} The {_share(bounds.confidence)} Clopper-Pearson interval of the share is {_share(shares.low)} to "
        f"{_share(shares.high)}, which corresponds to minimum detectable effects of {_pp(bounds.low)} to "
        f"{_pp(bounds.high)}."
    )


def _effect(result: PostHocPower) -> Iterator[str]:
    if result.effect is None:
        yield "Pass --effect to compute the power for a difference that matters to you."
        return
    if result.effect_power is None:
        yield f"The power for a difference of {_pp(result.effect)} is unknown."
        return
    tasks = "more than 100,000" if result.effect_tasks is None else f"{result.effect_tasks:,}"
    yield (
        f"The power for a difference of {_pp(result.effect)} was **{_share(result.effect_power)}**. A power of "
        f"{_share(result.question.power)} requires {tasks} such tasks."
    )
    yield _DECLARED_EFFECT


def _level(question: Question) -> str:
    return f"{_share(question.power)} power and a two-sided level of {_share(question.alpha)}"


def _share(share: float) -> str:
    return f"{100 * share:.3g}%"


def _pp(share: float) -> str:
    return f"{100 * share:.3g} pp"
