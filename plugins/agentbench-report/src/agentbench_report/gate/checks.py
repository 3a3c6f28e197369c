"""What a gate looks at, check by check. Each says what it measured, what was asked, and why it ends as it does.

No test for a difference is among them. "No significant difference" is what too few tasks give, too; here it is the
candidate that has to show that it loses less than the margin, and what is missing counts against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist, fmean

import attrs

from agentbench_core import FailureReason
from agentbench_report.comparison.alignment import Alignment, Missing, TaskPair
from agentbench_report.comparison.comparable import TAMPER_CONFIRMED, tampered
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.gate.config import GateRules
from agentbench_report.gate.report import Check, Comparison, Status
from agentbench_report.spending import unknown_cost
from agentbench_report.statistics import noninferiority, noninferiority_mean
from agentbench_report.text import percent, points

_NOTHING = "No task has a score in both runs."
_ROUNDING = 1e-9
"""A mean that is just at its bound holds it, whatever the last digit of a float is."""


def least_pairs(margin: float, alpha: float) -> int | None:
    """Tasks from which on a candidate can pass that differs from its baseline in none; ``None``: never.

    ``n >= z**2 * (1 - M) / M`` with z the 1 - alpha quantile, from the score test with no discordant pair (Tango 1998,
    Stat Med 17:891).
    """
    if margin <= 0:
        return None
    z = NormalDist().inv_cdf(1 - alpha)
    return max(1, math.ceil(z * z * (1 - margin) / margin))


def as_planned(alignment: Alignment) -> Alignment:
    """The tasks of the baseline, those among them that the candidate did not even plan as ones that it has no score in.

    To leave a task out must not be better than to lose its result. Nor must it be to quarantine it: what only one of
    the runs says is quarantined is there, too, as it went.
    """
    lost = [
        TaskPair(
            task_id=a.task_id, digest=a.digest, a=a, b=TaskCounts(task_id=a.task_id, digest=a.digest, not_recorded=1)
        )
        for a in alignment.only_a
        if not a.invalid_throughout
    ]
    return attrs.evolve(alignment, pairs=(*alignment.pairs, *alignment.disputed, *lost), only_a=(), quarantined=())


def compared(alignment: Alignment, missing: Missing, rules: GateRules) -> Comparison:
    """The score test on pairs of single attempts; with repeats that of t, too, on the tasks' differences."""
    differences = alignment.differences(missing)
    if alignment.repeated:
        result = noninferiority_mean(differences, rules.tested_loss, rules.alpha)
        return Comparison(
            method="t_tango",
            tasks=len(differences),
            table=None,
            difference=fmean(differences) if differences else None,
            result=result,
        )
    table = alignment.table(missing)
    result = noninferiority(table, rules.tested_loss, rules.alpha)
    return Comparison(method="tango", tasks=table.n, table=table, difference=table.difference, result=result)


def non_inferiority(comparison: Comparison, margin: float, alpha: float) -> Check:
    """Over pairs with a score on both sides."""
    status = comparison.result.verdict
    if comparison.difference is None:
        return _check("non_inferiority", "inconclusive", None, -margin, _NOTHING)
    bounds, accepted = comparison.result.interval, f"{100 * margin:g} points"
    found = f"the difference is {points(comparison.difference)} over {_tasks(comparison.tasks)}"
    sure = f"with {percent(1 - alpha)} confidence"
    if status == "pass":
        why = f"The candidate loses less than {accepted}: {found}, {sure} not below {points(bounds.low)}."
    elif status == "fail":
        why = (
            f"The candidate is worse, and may lose {accepted} or more: {found}, {sure} not above {points(bounds.high)}."
        )
    else:
        why = f"Whether the candidate loses {accepted} or more cannot be told: {found}"
        least = least_pairs(margin, alpha)
        if least is None:
            why += ". With a margin of 0 it never can: equal runs do not show that nothing is lost."
        elif comparison.tasks < least:
            why += f", and it takes {_tasks(least)} to pass even when none differs."
        else:
            why += f", but may be as low as {points(bounds.low)}."
    return _check("non_inferiority", status, bounds.low, -margin, why)


def heldout_drop(complete: Comparison, worst: Comparison, most: float) -> Check:
    """What was observed, with no regard for chance; in the worst case for what is missing, too."""
    if complete.difference is None or worst.difference is None:
        return _check("heldout_drop", "inconclusive", None, -most, _NOTHING)
    why = (
        f"The observed difference is {points(complete.difference)} over {_tasks(complete.tasks)}; a drop of "
        f"{100 * most:g} points is accepted."
    )
    least = -most - _ROUNDING
    status: Status = "fail" if complete.difference < least else "pass"
    if status == "pass" and worst.difference < least:
        status = "inconclusive"
        why += f" Had what is missing passed in the baseline and failed in the candidate: {points(worst.difference)}."
    return _check("heldout_drop", status, complete.difference, -most, why)


def worst_case(alignment: Alignment, comparison: Comparison, margin: float) -> Check:
    """As if what is missing had passed in the baseline and failed in the candidate: it must pass then, too.

    ``comparison`` is over the tasks ``as_planned``, ``alignment`` is not.
    """
    status, low = comparison.result.verdict, comparison.result.interval.low
    tasks, absent, disputed = len(alignment.incomplete), len(alignment.only_a), len(alignment.disputed)
    if not tasks and not absent and not disputed:
        return _check("worst_case", "pass", low, -margin, "No attempt at a task of the baseline is missing.")
    lacking = [f"In {_tasks(tasks)} an attempt has no score."] if tasks else []
    lacking += (
        [f"{_tasks(absent)} of the baseline {'is' if absent == 1 else 'are'} not in the candidate."] if absent else []
    )
    if disputed:
        counted = "it counts here" if disputed == 1 else "they count here"
        lacking.append(f"{_tasks(disputed)} {'is' if disputed == 1 else 'are'} quarantined in one run only; {counted}.")
    assumed = f"{' '.join(lacking)} Had what is missing passed in the baseline and failed in the candidate"
    bound = f"the difference could be as low as {points(low)}"
    if status == "pass":
        return _check("worst_case", "pass", low, -margin, f"{assumed}, {bound}, which is accepted.")
    return _check("worst_case", "inconclusive", low, -margin, f"{assumed}, {bound}: too much hangs on them.")


def enough(alignment: Alignment, rules: GateRules) -> Iterator[Check]:
    """Pairs, and their share of all tasks of both runs: leaving tasks out of a run helps nobody.

    What both say is quarantined is no task here; what only one of them says is, lacks a pair.
    """
    pairs = len(alignment.complete)
    tasks = len(alignment.valid) + len(alignment.disputed) + len(alignment.only_a) + len(alignment.only_b)
    found = f"{pairs} of {tasks} tasks have a score in both runs"
    asked = f"at least {rules.min_pairs} are asked for"
    yield _bound("min_pairs", pairs >= rules.min_pairs, pairs, rules.min_pairs, f"{found}; {asked}.")
    share, least = pairs / tasks if tasks else 0.0, rules.min_paired_share
    asked = f"at least {percent(least)} are asked for"
    yield _bound("paired_share", share >= least, share, least, f"{found}, {percent(share)}; {asked}.")


def infrastructure(whose: str, run: RunCounts, rules: GateRules) -> Check:
    """Attempts without a score, recorded or not. They are nobody's failure, and too many of them say nothing."""
    missing, most = run.unscored + run.not_recorded, rules.max_infrastructure_share
    share = missing / run.planned if run.planned else 1.0
    why = (
        f"{missing} of {run.planned} planned attempts of the {whose} have no score, {percent(share)}; "
        f"at most {percent(most)} are accepted."
    )
    return _bound(f"infrastructure_{whose}", share <= most, share, most, why)


def working(whose: str, run: RunCounts, rules: GateRules) -> Iterator[Check]:
    """Whether the agent does anything: where neither run does, both agree. What is missing may have been either.

    A candidate that does not work fails. A baseline that does not is nothing to measure by.
    """
    tasks = [task for task in run.tasks if task.planned and not task.invalid_throughout]
    if not tasks:
        yield _check(f"pass_rate_{whose}", "inconclusive", None, rules.min_pass_rate, f"The {whose} has no task.")
        return
    low = fmean(task.passed / task.planned for task in tasks)
    high = fmean((task.passed + task.missing) / task.planned for task in tasks)
    found, missing = f"The {whose} passes {percent(low)} over {_tasks(len(tasks))}", sum(t.missing for t in tasks)
    lacking = f", {percent(high)} had what is missing passed" if missing else ""
    why = f"{found}{lacking}; at least {percent(rules.min_pass_rate)} are asked for."
    status = _told(whose, low >= rules.min_pass_rate - _ROUNDING, high >= rules.min_pass_rate - _ROUNDING)
    yield _check(f"pass_rate_{whose}", status, low, rules.min_pass_rate, why)
    errors, planned = run.reasons.get(FailureReason.AGENT_ERROR, 0), sum(task.planned for task in tasks)
    most = rules.max_agent_error_share
    lacking = f" ({missing} have no score)" if missing else ""
    why = (
        f"{errors} of {planned} attempts of the {whose} ended as AGENT_ERROR{lacking}, {percent(errors / planned)}; "
        f"at most {percent(most)} are accepted."
    )
    status = _told(whose, (errors + missing) / planned <= most, errors / planned <= most)
    yield _check(f"agent_errors_{whose}", status, errors / planned, most, why)


def _told(whose: str, surely: bool, perhaps: bool) -> Status:
    return "pass" if surely else "fail" if not perhaps and whose == "candidate" else "inconclusive"


def evidence(whose: str, run: RunCounts) -> Check:
    """Records that nothing speaks for: everybody could have written them."""
    why = f"Every record of the {whose} is carried by an event of its run."
    if run.unsealed:
        why = (
            f"{run.unsealed} records of the {whose} are carried by no event of its run: nothing says that they are as "
            "they were written."
        )
    return _bound(f"evidence_{whose}", not run.unsealed, run.unsealed, 0, why)


def labels(a: RunCounts, b: RunCounts, rules: GateRules) -> Iterator[Check]:
    """What labels mean. In the baseline none is a fail of the candidate: there it takes away what to measure by."""
    for name, policy in sorted(rules.labels.items()):
        if policy == "ignore":
            continue
        in_a, in_b = _labelled(a, name), _labelled(b, name)
        status: Status = policy if in_b else "inconclusive" if in_a else "pass"
        why = f"No attempt has the label {name}."
        if in_a or in_b:
            why = f"{in_b} attempts of the candidate and {in_a} of the baseline have the label {name}."
        yield _check(f"label_{name}", status, in_a + in_b, 0, why)


def _labelled(run: RunCounts, name: str) -> int:
    """Attempts with a label. Confirmed tampering is a failure reason, too, and may stand on either."""
    return sum(map(tampered, run.tasks)) if name == TAMPER_CONFIRMED else run.labels.get(name, 0)


def ceilings(a: RunCounts, b: RunCounts, alignment: Alignment, rules: GateRules) -> Iterator[Check]:
    """What an attempt may cost and how long it may take, on average over pairs with a score on both sides."""
    if rules.max_cost_ratio is not None:
        unknown = _unknown(baseline=a, candidate=b)
        if unknown:
            yield _check("cost_ratio", "inconclusive", None, rules.max_cost_ratio, unknown)
        else:
            yield _ratio("cost_ratio", alignment, _cost, rules.max_cost_ratio, "cost", "USD")
    if rules.max_cost_usd_per_task is not None:
        unknown, most = _unknown(candidate=b), rules.max_cost_usd_per_task
        cost = _mean([pair.b for pair in alignment.complete], _cost)
        if unknown or cost is None:
            yield _check("cost_per_task", "inconclusive", None, most, unknown or _NOTHING)
        else:
            why = f"An attempt of the candidate costs {cost:.4g} USD on average; at most {most:.4g} is accepted."
            yield _check("cost_per_task", "pass" if cost <= most else "fail", cost, most, why)
    if rules.max_duration_ratio is not None:
        yield _ratio("duration_ratio", alignment, _duration, rules.max_duration_ratio, "duration", "s")


def _unknown(**runs: RunCounts) -> str:
    """Why no ceiling on cost can be held; empty when it can."""
    found = ((whose, unknown_cost(run)) for whose, run in runs.items())
    said = [f"what an attempt of the {whose} costs is not known: {why}" for whose, why in found if why]
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


_PerAttempt = Callable[[TaskCounts], float]


def _cost(task: TaskCounts) -> float:
    return task.cost_usd / len(task.repeats)


def _duration(task: TaskCounts) -> float:
    return task.duration_sec / len(task.repeats)


def _mean(tasks: list[TaskCounts], of: _PerAttempt) -> float | None:
    return fmean(of(task) for task in tasks) if tasks else None


def _ratio(name: str, alignment: Alignment, of: _PerAttempt, most: float, what: str, unit: str) -> Check:
    was = _mean([pair.a for pair in alignment.complete], of)
    now = _mean([pair.b for pair in alignment.complete], of)
    if was is None or now is None:
        return _check(name, "inconclusive", None, most, _NOTHING)
    found = f"The {what} of an attempt is {now:.4g} {unit} on average, and was {was:.4g}"
    if was == 0:
        status: Status = "inconclusive" if now else "pass"
        return _check(name, status, None, most, f"{found}: there is no ratio to zero.")
    ratio = now / was
    why = f"{found}: {ratio:.2f} times as much; at most {most:.4g} times is accepted."
    return _check(name, "pass" if ratio <= most else "fail", ratio, most, why)


def _bound(name: str, holds: bool, measured: float, asked: float, why: str) -> Check:
    """A check of whether there is enough to judge by. Where it does not hold nothing can be told; nobody has failed."""
    return _check(name, "pass" if holds else "inconclusive", measured, asked, why)


def _check(name: str, status: Status, measured: float | None, asked: float | None, why: str) -> Check:
    return Check(name=name, status=status, measured=measured, asked=asked, why=why)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
