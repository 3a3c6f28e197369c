"""Compare two runs on the same tasks: which run is better, by how much, and on which tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, TaskPair, align
from agentbench_report.comparison.detectable import detectable, require_resamples
from agentbench_report.comparison.estimates import Estimate, Method, Question, alternatives, bounds, estimate
from agentbench_report.comparison.metrics import compare_metrics
from agentbench_report.comparison.paired_report import (
    Change,
    Diff,
    Move,
    PairedReport,
    PairSide,
    RateMethod,
    ReasonShift,
    Side,
    TaskRow,
)
from agentbench_report.comparison.quarantined import quarantined_tasks
from agentbench_report.comparison.refusal_reasons import RefusalReason
from agentbench_report.comparison.refusals import check, require
from agentbench_report.comparison.verdicts import (
    SAME_VARIANT_DIFFERENCE,
    Alternative,
    about_excluded,
    about_missing,
    headline,
)
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.statistics import Interval, mean_of_means, seed_of, task_interval, wilson

PASSED = "passed"
NOT_RECORDED = "not recorded"
"""The outcomes of attempts that have no failure reason."""

FINAL_DIFF = "diffs/final.patch"
_MAX_DIFFS = 3
"""The maximum number of attempts per task whose diffs are listed. Each requires a file lookup."""

_NO_PAIRS = (
    "McNemar's test requires one attempt per task. These runs have several, "
    "and attempts at one task are not independent"
)
_NO_PAIRS_REMEDY = "Use --method bootstrap to compare the pass rates of tasks."


def compare_pair(
    a: RunCounts,
    b: RunCounts,
    *,
    method: Method,
    confidence: float = 0.95,
    resamples: int = 10_000,
    allowed: Collection[RefusalReason] = (),
) -> PairedReport:
    """Compare two runs.

    Args:
        a: the baseline run.
        b: the run to evaluate.
        method: ``mcnemar`` for single attempts; ``means`` or ``bootstrap`` for any number of repeats.
        confidence: the confidence of intervals. The test level is 1 - ``confidence``.
        resamples: the number of bootstrap resamples, and of sign flips if there are too many to enumerate.
        allowed: refusal reasons that are reported instead of raised.

    Raises:
        InputError: the runs are not comparable, the method is ``mcnemar`` and there are repeats, or ``resamples`` is
            too small for the test level.
    """
    comparability = check(a, b, allowed)
    aligned = align(a, b)
    unsuitable = method == "mcnemar" and aligned.repeated
    require(("These runs", comparability), also=f"{_NO_PAIRS}. {_NO_PAIRS_REMEDY}" if unsuitable else "")
    if unsuitable:
        raise InputError(_NO_PAIRS, remedy=_NO_PAIRS_REMEDY)
    question = Question(
        method=method,
        confidence=confidence,
        resamples=resamples,
        seed=seed_of(a.manifest.run_id, b.manifest.run_id),
    )
    main = estimate(aligned, question)
    worst, best = bounds(aligned, question)
    with_quarantined, without_suspected = alternatives(aligned, question)
    require_resamples((main, worst, best, with_quarantined, without_suspected), question)
    quarantined = quarantined_tasks(aligned)
    effect = detectable(main, aligned.differences(), question)
    alternative_cases = _alternative(with_quarantined), _alternative(without_suspected)
    sentences = (
        headline(main, effect, question),
        SAME_VARIANT_DIFFERENCE if comparability.same_variant and main.verdict != "undecided" else "",
        about_missing(
            len(aligned.incomplete), len(aligned.valid), main.verdict, _alternative(worst), _alternative(best)
        ),
        about_excluded(len(quarantined), aligned.suspected, main.verdict, *alternative_cases),
    )
    return PairedReport(
        verdict=main.verdict,
        headline=" ".join(filter(None, sentences)),
        robust=all(case is None or case.verdict == main.verdict for case in (worst, best)),
        same_variant=comparability.same_variant,
        same_terms=comparability.same_terms,
        method=method,
        confidence=confidence,
        seed=question.seed,
        a=side(a, [pair.a for pair in aligned.valid], [pair.a for pair in aligned.complete], confidence),
        b=side(b, [pair.b for pair in aligned.valid], [pair.b for pair in aligned.complete], confidence),
        overridden=comparability.overridden,
        warnings=comparability.warnings,
        pairs=len(aligned.valid),
        complete_pairs=len(aligned.complete),
        incomplete=tuple(pair.task_id for pair in aligned.incomplete),
        invalid=tuple(pair.task_id for pair in aligned.invalid),
        quarantined=quarantined,
        suspected=aligned.suspected,
        only_a=tuple(task.task_id for task in aligned.only_a),
        only_b=tuple(task.task_id for task in aligned.only_b),
        estimate=main,
        worst=worst,
        best=best,
        with_quarantined=with_quarantined,
        without_suspected=without_suspected,
        detectable=effect,
        metrics=compare_metrics(a, b, aligned.pairs, confidence),
        reasons=_reasons(aligned),
        moves=_moves(aligned),
        tasks=tuple(_row(pair, a, b) for pair in _by_name((*aligned.pairs, *aligned.quarantined))),
    )


def side(run: RunCounts, tasks: Sequence[TaskCounts], rated: Sequence[TaskCounts], confidence: float) -> Side:
    """One run of a comparison: counts over ``tasks``, and the pass rate over ``rated``, which must all have a score."""
    manifest = run.manifest
    counts = [(task.passed, task.scored) for task in rated]
    interval: Interval | None = None
    interval_method: RateMethod = ""
    if counts and any(task.planned > 1 for task in tasks):
        interval, interval_method = task_interval(counts, confidence), "over tasks"
    elif counts:
        interval = wilson(sum(passed for passed, _ in counts), len(counts), confidence)
        interval_method = "wilson"
    return Side(
        directory=str(run.view.directory),
        run_id=manifest.run_id,
        suite=manifest.suite,
        variant=manifest.variant,
        variant_digest=manifest.variant_digest,
        agent=manifest.agent,
        model=run.model,
        harness=manifest.harness.version,
        status=run.status,
        repeats=manifest.repeats,
        planned=sum(task.planned for task in tasks),
        scored=sum(task.scored for task in tasks),
        passed=sum(task.passed for task in tasks),
        unscored=sum(task.unscored for task in tasks),
        not_recorded=sum(task.not_recorded for task in tasks),
        pass_rate=mean_of_means(counts),
        interval=interval,
        interval_method=interval_method,
        steps=sum(task.steps for task in tasks),
        duration_sec=sum(task.duration_sec for task in tasks),
        tokens=sum(task.tokens for task in tasks),
        cost_usd=sum(task.cost_usd for task in tasks),
    )


def _alternative(case: Estimate | None) -> Alternative | None:
    return None if case is None else Alternative(difference=case.difference, p=case.p, verdict=case.verdict)


def _by_name(pairs: Sequence[TaskPair]) -> Sequence[TaskPair]:
    return sorted(pairs, key=lambda pair: (pair.task_id, pair.digest))


def _row(pair: TaskPair, a: RunCounts, b: RunCounts) -> TaskRow:
    difference = pair.difference()
    return TaskRow(
        task_id=pair.task_id,
        digest=pair.digest,
        change="quarantined" if pair.quarantined else "invalid" if pair.invalid else _change(difference),
        difference=difference,
        a=_pair_side(pair.a, _diffs(a, pair.a, passed=difference < 0) if difference else ()),
        b=_pair_side(pair.b, _diffs(b, pair.b, passed=difference > 0) if difference else ()),
    )


def _change(difference: float | None) -> Change:
    if difference is None:
        return "unknown"
    return "same" if difference == 0 else "regressed" if difference < 0 else "improved"


def _pair_side(task: TaskCounts, diffs: tuple[Diff, ...]) -> PairSide:
    return PairSide(
        task_id=task.task_id,
        passed=task.passed,
        scored=task.scored,
        unscored=task.unscored,
        not_recorded=task.not_recorded,
        pass_rate=task.rate,
        reasons=task.reasons,
        diffs=diffs,
    )


def _diffs(run: RunCounts, task: TaskCounts, *, passed: bool) -> tuple[Diff, ...]:
    """Final diffs of a few attempts, starting with passed attempts if ``passed``, otherwise with failed ones."""
    results: tuple[tuple[Literal["passed", "failed"], tuple[int, ...]], ...]
    results = ("passed", task.passes), ("failed", task.fails)
    attempts = [(repeat, result) for result, repeats in (results if passed else results[::-1]) for repeat in repeats]
    return tuple(
        Diff(repeat=repeat, result=result, path=f"{task.directory(repeat)}/{FINAL_DIFF}")
        for repeat, result in attempts[:_MAX_DIFFS]
        # Symbolic links and names that point out of the run directory are ignored.
        if run.view.file(task.task_id, repeat, FINAL_DIFF, at_most=0) is not None
    )


def _reasons(aligned: Alignment) -> tuple[ReasonShift, ...]:
    sides = []
    for tasks in ([pair.a for pair in aligned.valid], [pair.b for pair in aligned.valid]):
        total: Counter[str] = Counter()
        for task in tasks:
            total.update(task.reasons)
            total[NOT_RECORDED] += task.not_recorded
        sides.append(+total)
    names = sorted({*sides[0], *sides[1]}, key=lambda name: (-sides[0][name] - sides[1][name], name))
    return tuple(ReasonShift(reason=name, a=sides[0][name], b=sides[1][name]) for name in names)


def _moves(aligned: Alignment) -> tuple[Move, ...]:
    if aligned.repeated:
        return ()
    moves = Counter((_end(pair.a), _end(pair.b)) for pair in aligned.valid)
    return tuple(
        Move(a=a, b=b, tasks=tasks)
        for (a, b), tasks in sorted(moves.items(), key=lambda item: (-item[1], item[0]))
        if a != b
    )


def _end(task: TaskCounts) -> str:
    """The outcome of the only attempt at a task."""
    return PASSED if task.passed else next(iter(task.reasons), NOT_RECORDED)
