"""Any number of runs on the same tasks, each held against one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.comparable import Comparability, check, require
from agentbench_report.comparison.compare_report import Against, Compared, CompareReport, Omnibus, TaskAcross, TaskCell
from agentbench_report.comparison.estimates import Estimate, Question, bounds, detectable, estimate, verdict
from agentbench_report.comparison.grounds import Ground
from agentbench_report.comparison.paired import side
from agentbench_report.reading import RunCounts
from agentbench_report.statistics import cochran_q, holm, seed_of


def compare_runs(
    runs: Sequence[RunCounts],
    baseline: int = 0,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    allowed: Collection[Ground] = (),
) -> CompareReport:
    """Hold each of ``runs`` against the one at the index ``baseline``, over the tasks that all of them have.

    Raises:
        InputError: there are fewer than two runs, one is there twice, or one is not comparable with the baseline; all
            that speaks against it is told at once.
    """
    if len(runs) < 2:
        raise InputError("there is one run, and nothing to compare it with", remedy="Give two or more after --runs.")
    ids = [run.manifest.run_id for run in runs]
    labels = _labels(runs)
    base = runs[baseline]
    others = [index for index in range(len(runs)) if index != baseline]
    found = {index: check(base, runs[index], allowed) for index in others}
    require(*((f"A: {labels[baseline]} and B: {labels[index]}", found[index]) for index in others))
    twice = [labels[index] for index in others if ids.count(ids[index]) > 1]
    if twice:
        raise InputError(f"one run is given more than once, as {' and '.join(twice)}", remedy="Give each run once.")
    shared = set.intersection(*({task.digest for task in run.tasks} for run in runs))
    every = {task.digest for run in runs for task in run.tasks}
    cut = [attrs.evolve(run, tasks=tuple(task for task in run.tasks if task.digest in shared)) for run in runs]
    aligned = {index: align(cut[baseline], cut[index]) for index in others}
    questions = {
        index: Question(
            method="means" if aligned[index].repeated else "mcnemar",
            confidence=confidence,
            resamples=resamples,
            seed=seed_of(ids[baseline], ids[index]),
        )
        for index in others
    }
    estimates = {index: estimate(aligned[index], questions[index]) for index in others}
    adjusted = dict(zip(others, holm([estimates[index].p for index in others]), strict=True))
    against = {
        index: _against(found[index], aligned[index], estimates[index], adjusted[index], questions[index], len(others))
        for index in others
    }
    return CompareReport(
        suite=base.manifest.suite,
        baseline=labels[baseline],
        confidence=confidence,
        runs=tuple(
            _compared(label, run, against.get(index), confidence)
            for index, (label, run) in enumerate(zip(labels, cut, strict=True))
        ),
        omnibus=_omnibus(cut, list(aligned.values())),
        tasks=_tasks(cut, baseline),
        left_out=len(every - shared),
    )


def _labels(runs: Sequence[RunCounts]) -> Sequence[str]:
    names = [run.manifest.variant for run in runs]
    several = Counter(names)
    return [f"{name} #{names[: n + 1].count(name)}" if several[name] > 1 else name for n, name in enumerate(names)]


def _against(
    found: Comparability, aligned: Alignment, main: Estimate, p_holm: float, question: Question, comparisons: int
) -> Against:
    worst, best = bounds(aligned, question)
    strict = attrs.evolve(question, confidence=1 - question.alpha / comparisons)
    return Against(
        verdict=verdict(main.difference, p_holm, question.alpha),
        estimate=main,
        worst=worst,
        best=best,
        p_holm=p_holm,
        detectable=detectable(main, aligned.differences(), strict),
        complete_pairs=len(aligned.complete),
        incomplete=len(aligned.incomplete),
        same_variant=found.same_variant,
        overridden=found.overridden,
        warnings=found.warnings,
    )


def _compared(label: str, run: RunCounts, against: Against | None, confidence: float) -> Compared:
    beside = side(run, run.tasks, [task for task in run.tasks if task.scored], confidence)
    return Compared(
        label=label,
        side=beside,
        cost_per_pass_usd=beside.cost_usd / beside.passed if beside.passed else None,
        against=against,
    )


def _omnibus(runs: Sequence[RunCounts], aligned: Sequence[Alignment]) -> Omnibus | None:
    """Over tasks with a score everywhere; attempts at one task are no matched samples, so not with repeats."""
    if len(runs) < 3 or any(one.repeated for one in aligned):
        return None
    digests = [task.digest for task in runs[0].tasks]
    found = [[run.by_digest[digest] for run in runs] for digest in digests]
    rows = [[task.passed for task in tasks] for tasks in found if all(task.scored for task in tasks)]
    if not rows:
        return None
    q, p = cochran_q(rows)
    return Omnibus(q=q, p=p, tasks=len(rows))


def _tasks(runs: Sequence[RunCounts], baseline: int) -> tuple[TaskAcross, ...]:
    return tuple(
        TaskAcross(
            task_id=task.task_id,
            digest=task.digest,
            cells=tuple(
                TaskCell(passed=one.passed, scored=one.scored, missing=one.missing)
                for one in (run.by_digest[task.digest] for run in runs)
            ),
        )
        for task in runs[baseline].tasks
    )
