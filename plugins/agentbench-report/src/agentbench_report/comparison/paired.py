"""Two runs on the same tasks: is one better, by how much, and on which tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, TaskPair, align
from agentbench_report.comparison.aside import quarantined_tasks
from agentbench_report.comparison.comparable import check, require
from agentbench_report.comparison.detectable import detectable, require_resamples
from agentbench_report.comparison.estimates import Estimate, Method, Question, beside, bounds, estimate
from agentbench_report.comparison.grounds import Ground
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
from agentbench_report.comparison.verdicts import BEYOND_CHANCE, Bound, about_aside, about_missing, headline
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.statistics import Interval, mean_of_means, seed_of, task_interval, wilson

PASSED = "passed"
NOT_RECORDED = "not recorded"
"""Beside failure reasons, how an attempt can end."""

FINAL_DIFF = "diffs/final.patch"
_DIFFS_NAMED = 3
"""Attempts at a task whose diffs are named; that they are there costs a look at the disk each."""

_NO_PAIRS = (
    "McNemar's test is for one attempt per task, and these runs have several: attempts at one task are not "
    "independent, and counted as pairs they would call equal variants different too often"
)
_NO_PAIRS_REMEDY = "Compare the tasks' own pass rates: --method bootstrap"


def compare_pair(
    a: RunCounts,
    b: RunCounts,
    *,
    method: Method,
    confidence: float = 0.95,
    resamples: int = 10_000,
    allowed: Collection[Ground] = (),
) -> PairedReport:
    """Compare two runs.

    Args:
        a: the run to compare with.
        b: the run that is judged.
        method: ``mcnemar`` for single attempts; ``means`` or ``bootstrap`` for any number of repeats.
        confidence: of intervals; 1 minus it is the level of the tests.
        resamples: of the bootstrap, and of the sign-flip test where there are too many flips to try all.
        allowed: what may speak against the comparison, and is said in the report instead.

    Raises:
        InputError: the runs are not comparable, ``mcnemar`` is asked for with repeats, or ``resamples`` are too few for
            the level of the test.
    """
    found = check(a, b, allowed)
    aligned = align(a, b)
    unfit = method == "mcnemar" and aligned.repeated
    require(("These runs", found), also=f"{_NO_PAIRS}. {_NO_PAIRS_REMEDY}" if unfit else "")
    if unfit:
        raise InputError(_NO_PAIRS, remedy=_NO_PAIRS_REMEDY)
    question = Question(
        method=method,
        confidence=confidence,
        resamples=resamples,
        seed=seed_of(a.manifest.run_id, b.manifest.run_id),
    )
    main = estimate(aligned, question)
    worst, best = bounds(aligned, question)
    with_quarantined, without_suspected = beside(aligned, question)
    require_resamples((main, worst, best, with_quarantined, without_suspected), question)
    aside = quarantined_tasks(aligned)
    seen = detectable(main, aligned.differences(), question)
    said = (
        headline(main, seen, question),
        BEYOND_CHANCE if found.same_variant and main.verdict != "undecided" else "",
        about_missing(len(aligned.incomplete), len(aligned.valid), main.verdict, _bound(worst), _bound(best)),
        about_aside(len(aside), aligned.suspected, main.verdict, _bound(with_quarantined), _bound(without_suspected)),
    )
    return PairedReport(
        verdict=main.verdict,
        headline=" ".join(part for part in said if part),
        robust=all(bound is None or bound.verdict == main.verdict for bound in (worst, best)),
        same_variant=found.same_variant,
        same_terms=found.same_terms,
        method=method,
        confidence=confidence,
        seed=question.seed,
        a=side(a, [pair.a for pair in aligned.valid], [pair.a for pair in aligned.complete], confidence),
        b=side(b, [pair.b for pair in aligned.valid], [pair.b for pair in aligned.complete], confidence),
        overridden=found.overridden,
        warnings=found.warnings,
        pairs=len(aligned.valid),
        complete_pairs=len(aligned.complete),
        incomplete=tuple(pair.task_id for pair in aligned.incomplete),
        invalid=tuple(pair.task_id for pair in aligned.invalid),
        quarantined=aside,
        suspected=aligned.suspected,
        only_a=tuple(task.task_id for task in aligned.only_a),
        only_b=tuple(task.task_id for task in aligned.only_b),
        estimate=main,
        worst=worst,
        best=best,
        with_quarantined=with_quarantined,
        without_suspected=without_suspected,
        detectable=seen,
        reasons=_reasons(aligned),
        moves=_moves(aligned),
        tasks=tuple(_row(pair, a, b) for pair in _by_name((*aligned.pairs, *aligned.quarantined))),
    )


def side(run: RunCounts, tasks: Sequence[TaskCounts], rated: Sequence[TaskCounts], confidence: float) -> Side:
    """A run as it stands beside others: counts over ``tasks``, its pass rate over ``rated``, which all have a score."""
    manifest = run.manifest
    counts = [(task.passed, task.scored) for task in rated]
    interval: Interval | None = None
    how: RateMethod = ""
    if counts and any(task.planned > 1 for task in tasks):
        interval, how = task_interval(counts, confidence), "over tasks"
    elif counts:
        interval, how = wilson(sum(passed for passed, _ in counts), len(counts), confidence), "wilson"
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
        interval_method=how,
        steps=sum(task.steps for task in tasks),
        duration_sec=sum(task.duration_sec for task in tasks),
        tokens=sum(task.tokens for task in tasks),
        cost_usd=sum(task.cost_usd for task in tasks),
    )


def _bound(found: Estimate | None) -> Bound | None:
    return None if found is None else Bound(difference=found.difference, p=found.p, verdict=found.verdict)


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
    """Final diffs of a few attempts, first of those that ended so: they show what changed."""
    kinds: tuple[tuple[Literal["passed", "failed"], tuple[int, ...]], ...]
    kinds = ("passed", task.passes), ("failed", task.fails)
    every = [(repeat, result) for result, repeats in (kinds if passed else kinds[::-1]) for repeat in repeats]
    return tuple(
        Diff(repeat=repeat, result=result, path=f"{task.directory(repeat)}/{FINAL_DIFF}")
        for repeat, result in every[:_DIFFS_NAMED]
        # Links out of the run directory do not count, nor do names that lead there.
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
    """How the one attempt at a task ended."""
    return PASSED if task.passed else next(iter(task.reasons), NOT_RECORDED)
