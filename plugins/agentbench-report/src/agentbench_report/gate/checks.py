"""The checks of the gate. Each reports the measured value, the bound and an explanation.

There is no test for a difference, because with too few tasks no difference is significant. Instead, the candidate must
be shown to lose less than the margin, and missing results count against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist, fmean

import attrs

from agentbench_core import FailureReason
from agentbench_report.comparison.alignment import Alignment, Missing, TaskPair
from agentbench_report.comparison.metrics import MetricComparison
from agentbench_report.comparison.refusals import TAMPER_CONFIRMED, tampered
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.gate.config import GateRules
from agentbench_report.gate.report import Check, Comparison, Status
from agentbench_report.statistics import noninferiority, noninferiority_mean
from agentbench_report.text import percent, points

_NO_TASKS = "No task has a score in both runs."
_TOLERANCE = 1e-9
"""Tolerance for rounding, so that a mean equal to its bound passes."""
_WORST_CASE = "passed in the baseline and failed in the candidate"


def least_pairs(margin: float, alpha: float) -> int | None:
    """The fewest tasks with which a candidate with the same results as the baseline passes; ``None`` if it cannot.

    ``n >= z**2 * (1 - M) / M`` with z the 1 - alpha quantile, from the score test with no discordant pair (Tango 1998,
    Stat Med 17:891).
    """
    if margin <= 0:
        return None
    z = NormalDist().inv_cdf(1 - alpha)
    return max(1, math.ceil(z * z * (1 - margin) / margin))


def as_planned(alignment: Alignment) -> Alignment:
    """The alignment with every counted task of the baseline. Tasks missing in the candidate are added without a score.

    Omitting a task must not be better than losing its result. The same applies to quarantine, so tasks quarantined
    in only one of the runs are included with their results.
    """
    left_out = [
        TaskPair(
            task_id=a.task_id, digest=a.digest, a=a, b=TaskCounts(task_id=a.task_id, digest=a.digest, not_recorded=1)
        )
        for a in alignment.only_a
        if not a.invalid_throughout
    ]
    return attrs.evolve(
        alignment, pairs=(*alignment.pairs, *alignment.quarantine_mismatch, *left_out), only_a=(), quarantined=()
    )


def compared(alignment: Alignment, missing: Missing, rules: GateRules) -> Comparison:
    """The score test on pairs of single attempts; with repeats, both the score and the t test on task differences."""
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
    """The non-inferiority test over pairs with a score in both runs."""
    status = comparison.result.verdict
    if comparison.difference is None:
        return _check("non_inferiority", "inconclusive", None, -margin, _NO_TASKS)
    bounds, accepted = comparison.result.interval, f"{100 * margin:g} pp"
    observed = f"the difference is {points(comparison.difference)} over {_tasks(comparison.tasks)}"
    confidence = f"with {percent(1 - alpha)} confidence"
    if status == "pass":
        why = f"The candidate loses less than {accepted}: {observed}, {confidence} not below {points(bounds.low)}."
    elif status == "fail":
        why = (
            f"The candidate is worse and may lose {accepted} or more: {observed}, {confidence} not above "
            f"{points(bounds.high)}."
        )
    else:
        why = f"The candidate may lose {accepted} or more: {observed}"
        least = least_pairs(margin, alpha)
        if least is None:
            why += ". With a margin of 0, the gate cannot pass: equal results do not show that nothing is lost."
        elif comparison.tasks < least:
            why += f". Passing requires at least {_tasks(least)}, even if no task differs."
        else:
            why += f", with {percent(1 - alpha)} confidence not below {points(bounds.low)}."
    return _check("non_inferiority", status, bounds.low, -margin, why)


def heldout_drop(complete: Comparison, worst: Comparison, most: float) -> Check:
    """Check the observed drop, ignoring chance, both without missing results and in their worst case."""
    if complete.difference is None or worst.difference is None:
        return _check("heldout_drop", "inconclusive", None, -most, _NO_TASKS)
    why = (
        f"The observed difference is {points(complete.difference)} over {_tasks(complete.tasks)}. "
        f"A drop of at most {100 * most:g} pp is accepted."
    )
    least = -most - _TOLERANCE
    status: Status = "fail" if complete.difference < least else "pass"
    if status == "pass" and worst.difference < least:
        status = "inconclusive"
        why += f" If missing results had {_WORST_CASE}, the difference would be {points(worst.difference)}."
    return _check("heldout_drop", status, complete.difference, -most, why)


def worst_case(alignment: Alignment, comparison: Comparison, margin: float) -> Check:
    """The test with missing results counted as passed in the baseline and failed in the candidate.

    ``comparison`` must be computed from ``as_planned(alignment)``.
    """
    status, low = comparison.result.verdict, comparison.result.interval.low
    tasks, absent, disputed = len(alignment.incomplete), len(alignment.only_a), len(alignment.quarantine_mismatch)
    if not tasks and not absent and not disputed:
        return _check("worst_case", "pass", low, -margin, "No results of baseline tasks are missing.")
    missing = [f"{_tasks(tasks)} {'has' if tasks == 1 else 'have'} an attempt without a score."] if tasks else []
    if absent:
        missing.append(f"{_tasks(absent)} of the baseline {'is' if absent == 1 else 'are'} not in the candidate.")
    if disputed:
        is_, counts = ("is", "its results are") if disputed == 1 else ("are", "their results are")
        missing.append(f"{_tasks(disputed)} {is_} quarantined in only one run; {counts} included in this check.")
    assumed = f"{' '.join(missing)} If missing results had {_WORST_CASE}"
    bound = f"the difference could be as low as {points(low)}"
    if status == "pass":
        return _check("worst_case", "pass", low, -margin, f"{assumed}, {bound}, which is accepted.")
    return _check("worst_case", "inconclusive", low, -margin, f"{assumed}, {bound}, which is not accepted.")


def enough(alignment: Alignment, rules: GateRules) -> Iterator[Check]:
    """The number of pairs and their share of all tasks in either run, so that omitting tasks is no advantage.

    Tasks quarantined or invalid in both runs do not count. Tasks quarantined in only one of them count as unpaired.
    """
    pairs = len(alignment.complete)
    tasks = len(alignment.valid) + len(alignment.quarantine_mismatch) + len(alignment.only_a) + len(alignment.only_b)
    measured = f"Tasks with a score in both runs: {pairs} of {tasks}"
    why = f"{measured}. Required: at least {rules.min_pairs}."
    yield _bound("min_pairs", pairs >= rules.min_pairs, pairs, rules.min_pairs, why)
    share, least = pairs / tasks if tasks else 0.0, rules.min_paired_share
    why = f"{measured} ({percent(share)}). Required: at least {percent(least)}."
    yield _bound("paired_share", share >= least, share, least, why)


def infrastructure(side: str, run: RunCounts, rules: GateRules) -> Check:
    """The share of attempts without a score, recorded or not."""
    missing, most = run.unscored + run.not_recorded, rules.max_infrastructure_share
    share = missing / run.planned if run.planned else 1.0
    why = (
        f"Planned attempts of the {side} without a score: {missing} of {run.planned} ({percent(share)}). "
        f"At most {percent(most)} are accepted."
    )
    return _bound(f"infrastructure_{side}", share <= most, share, most, why)


def working(side: str, run: RunCounts, rules: GateRules) -> Iterator[Check]:
    """Whether the agent works, since two broken agents would agree. Missing attempts may be passes or failures.

    A candidate that does not work fails. If the baseline does not work, the gate is inconclusive.
    """
    tasks = [task for task in run.tasks if task.planned and not task.invalid_throughout]
    if not tasks:
        yield _check(f"pass_rate_{side}", "inconclusive", None, rules.min_pass_rate, f"The {side} has no tasks.")
        return
    low = fmean(task.passed / task.planned for task in tasks)
    high = fmean((task.passed + task.missing) / task.planned for task in tasks)
    missing, least = sum(task.missing for task in tasks), rules.min_pass_rate
    best = f"; it would be {percent(high)} if the missing attempts had passed" if missing else ""
    why = (
        f"The pass rate of the {side} is {percent(low)} over {_tasks(len(tasks))}{best}. "
        f"At least {percent(least)} is required."
    )
    status = _status(side, certain=low >= least - _TOLERANCE, possible=high >= least - _TOLERANCE)
    yield _check(f"pass_rate_{side}", status, low, least, why)
    errors, planned = run.reasons.get(FailureReason.AGENT_ERROR, 0), sum(task.planned for task in tasks)
    most = rules.max_agent_error_share
    unknown = f", {missing} without a score" if missing else ""
    why = (
        f"{errors} of {planned} attempts of the {side} ended with AGENT_ERROR ({percent(errors / planned)}){unknown}. "
        f"At most {percent(most)} are accepted."
    )
    status = _status(side, certain=(errors + missing) / planned <= most, possible=errors / planned <= most)
    yield _check(f"agent_errors_{side}", status, errors / planned, most, why)


def _status(side: str, *, certain: bool, possible: bool) -> Status:
    return "pass" if certain else "fail" if not possible and side == "candidate" else "inconclusive"


def evidence(side: str, run: RunCounts) -> Check:
    """Whether all records are in the event log. Other records cannot be verified."""
    why = f"All records of the {side} match the event log."
    if run.unsealed:
        records = f"1 record of the {side} is" if run.unsealed == 1 else f"{run.unsealed} records of the {side} are"
        why = f"{records} not in the event log and cannot be verified."
    return _bound(f"evidence_{side}", not run.unsealed, run.unsealed, 0, why)


def labels(a: RunCounts, b: RunCounts, rules: GateRules) -> Iterator[Check]:
    """The policies for labels. A label found only in the baseline makes the check inconclusive."""
    for name, policy in sorted(rules.labels.items()):
        if policy == "ignore":
            continue
        in_a, in_b = _labelled(a, name), _labelled(b, name)
        status: Status = policy if in_b else "inconclusive" if in_a else "pass"
        why = f"No attempt has the label {name}."
        if in_a or in_b:
            why = f"Attempts with the label {name}: {in_b} in the candidate, {in_a} in the baseline."
        yield _check(f"label_{name}", status, in_a + in_b, 0, why)


def _labelled(run: RunCounts, name: str) -> int:
    """The number of attempts with a label. Confirmed tampering is recorded as a label or as a failure reason."""
    return sum(map(tampered, run.tasks)) if name == TAMPER_CONFIRMED else run.labels.get(name, 0)


def ceilings(metrics: Sequence[MetricComparison], rules: GateRules) -> Iterator[Check]:
    """The bounds on the average cost and duration of an attempt, over pairs with a score in both runs."""
    of = {metric.metric: metric for metric in metrics}
    if rules.max_cost_ratio is not None:
        yield _ratio("cost_ratio", of["cost_usd"], rules.max_cost_ratio, "cost", "USD")
    if rules.max_cost_usd_per_task is not None:
        cost, most = of["cost_usd"].mean_b, rules.max_cost_usd_per_task
        if cost is None:
            why = _unknown("cost", candidate=of["cost_usd"].unknown_b) or _NO_TASKS
            yield _check("cost_per_task", "inconclusive", None, most, why)
        else:
            why = f"An attempt by the candidate costs {cost:.4g} USD on average. At most {most:.4g} USD is accepted."
            yield _check("cost_per_task", "pass" if cost <= most + _TOLERANCE else "fail", cost, most, why)
    if rules.max_duration_ratio is not None:
        yield _ratio("duration_ratio", of["duration_sec"], rules.max_duration_ratio, "duration", "s")


def _unknown(what: str, **reasons: str) -> str:
    """Why a bound cannot be checked; empty if it can."""
    return " ".join(f"The {what} per attempt is unknown for the {side}: {why}." for side, why in reasons.items() if why)


def _ratio(name: str, metric: MetricComparison, most: float, what: str, unit: str) -> Check:
    baseline, candidate = metric.mean_a, metric.mean_b
    if baseline is None or candidate is None:
        why = _unknown(what, baseline=metric.unknown_a, candidate=metric.unknown_b) or _NO_TASKS
        return _check(name, "inconclusive", None, most, why)
    means = f"The average {what} per attempt is {candidate:.4g} {unit}, compared with {baseline:.4g} in the baseline"
    if metric.ratio is None:
        status: Status = "inconclusive" if candidate else "pass"
        return _check(name, status, None, most, f"{means}. The ratio is undefined.")
    bounds = metric.ratio_interval
    likely = f" ({percent(bounds.confidence)} CI {bounds.low:.2f} to {bounds.high:.2f})" if bounds else ""
    why = f"{means}, a ratio of {metric.ratio:.2f}{likely}. At most {most:.4g} is accepted."
    return _check(name, "pass" if metric.ratio <= most + _TOLERANCE else "fail", metric.ratio, most, why)


def _bound(name: str, satisfied: bool, measured: float, asked: float, why: str) -> Check:
    """A check for sufficient evidence, which is inconclusive if it is not met."""
    return _check(name, "pass" if satisfied else "inconclusive", measured, asked, why)


def _check(name: str, status: Status, measured: float | None, asked: float | None, why: str) -> Check:
    return Check(name=name, status=status, measured=measured, asked=asked, why=why)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
