"""Decide whether a candidate may replace a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from agentbench_report.comparison.alignment import Missing, TaskPair, align
from agentbench_report.comparison.metrics import compare_metrics
from agentbench_report.comparison.quarantined import quarantined_tasks
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.gate.checks import (
    as_planned,
    ceilings,
    compared,
    enough,
    evidence,
    heldout_drop,
    infrastructure,
    labels,
    non_inferiority,
    working,
    worst_case,
)
from agentbench_report.gate.config import TOP_LEVEL, GateRules
from agentbench_report.gate.report import Check, GateReport, Moved, Side, Status


def decide(
    a: RunCounts,
    b: RunCounts,
    rules: GateRules,
    *,
    rules_from: str = TOP_LEVEL,
    overridden: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> GateReport:
    """Compare candidate ``b`` with baseline ``a``. The runs must be comparable.

    If any check fails, the verdict is a fail. Otherwise, if any check is inconclusive, the verdict is inconclusive.
    """
    alignment = align(a, b)
    complete = compared(alignment, Missing.LEFT_OUT, rules)
    worst = compared(as_planned(alignment), Missing.WORST, rules)
    with_quarantined = without_suspected = None
    if alignment.quarantined:
        with_quarantined = compared(alignment.with_quarantined(), Missing.LEFT_OUT, rules)
    if alignment.suspected:
        without_suspected = compared(alignment.without_suspected(), Missing.LEFT_OUT, rules)
    metrics = compare_metrics(a, b, alignment.pairs)
    checks: tuple[Check, ...] = ()
    if rules.margin is not None:
        checks += (
            non_inferiority(complete, rules.margin, rules.alpha),
            worst_case(alignment, worst, rules.margin),
        )
    if rules.max_heldout_drop is not None:
        checks += (heldout_drop(complete, worst, rules.max_heldout_drop),)
    checks += (
        *enough(alignment, rules),
        infrastructure("baseline", a.counted, rules),
        infrastructure("candidate", b.counted, rules),
        *working("baseline", a.counted, rules),
        *working("candidate", b.counted, rules),
        evidence("baseline", a),
        evidence("candidate", b),
        *labels(a, b, rules),
        *ceilings(metrics, rules),
    )
    statuses = {check.status for check in checks}
    verdict: Status = "fail" if "fail" in statuses else "inconclusive" if "inconclusive" in statuses else "pass"
    return GateReport(
        verdict=verdict,
        reason=next(check for check in checks if check.status == verdict).why,
        suite=b.manifest.suite,
        baseline=_side(a.counted, [pair.a for pair in alignment.complete]),
        candidate=_side(b.counted, [pair.b for pair in alignment.complete]),
        rules=rules,
        rules_from=rules_from,
        checks=checks,
        complete=complete,
        worst_case=worst,
        with_quarantined=with_quarantined,
        without_suspected=without_suspected,
        metrics=metrics,
        regressed=tuple(_moved(pair, pair.b) for pair in alignment.complete if (pair.difference() or 0) < 0),
        improved=tuple(_moved(pair, pair.a) for pair in alignment.complete if (pair.difference() or 0) > 0),
        incomplete=tuple(pair.task_id for pair in alignment.incomplete),
        quarantined=quarantined_tasks(alignment),
        only_baseline=tuple(task.task_id for task in alignment.only_a),
        only_candidate=tuple(task.task_id for task in alignment.only_b),
        overridden=tuple(overridden),
        warnings=tuple(warnings),
    )


def _side(run: RunCounts, tasks: Sequence[TaskCounts]) -> Side:
    rates = [task.rate for task in tasks if task.rate is not None]
    return Side(
        run_id=run.manifest.run_id,
        variant=run.manifest.variant,
        planned=run.planned,
        scored=run.scored,
        unscored=run.unscored,
        not_recorded=run.not_recorded,
        pass_rate=fmean(rates) if rates else None,
    )


def _moved(pair: TaskPair, worse: TaskCounts) -> Moved:
    return Moved(
        task_id=pair.task_id,
        baseline=pair.a.rate or 0.0,
        candidate=pair.b.rate or 0.0,
        reasons=worse.reasons,
    )
