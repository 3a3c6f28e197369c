"""Compare any number of runs on the same tasks with a baseline run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.compare_report import (
    BaselineComparison,
    ComparedRun,
    CompareReport,
    Omnibus,
    TaskAcross,
    TaskCell,
)
from agentbench_report.comparison.detectable import detectable, require_resamples
from agentbench_report.comparison.estimates import Estimate, Question, alternatives, bounds, estimate, verdict
from agentbench_report.comparison.metrics import MetricComparison, compare_metrics
from agentbench_report.comparison.paired import side
from agentbench_report.comparison.quarantined import quarantined_across
from agentbench_report.comparison.refusal_reasons import RefusalReason
from agentbench_report.comparison.refusals import Comparability, check, require
from agentbench_report.comparison.verdicts import Alternative, about_excluded, about_missing
from agentbench_report.counts import RunCounts
from agentbench_report.statistics import cochran_q, holm, seed_of


def compare_runs(
    runs: Sequence[RunCounts],
    baseline: int = 0,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    allowed: Collection[RefusalReason] = (),
) -> CompareReport:
    """Compare each of ``runs`` with the one at index ``baseline``, over the tasks that all runs have.

    Raises:
        InputError: there are fewer than two runs, a run is given twice, runs are not comparable with the baseline (all
            refusals are reported at once), or ``resamples`` is too small for the adjusted test level.
    """
    if len(runs) < 2:
        raise InputError("a comparison requires at least two runs", remedy="Pass two or more directories to --runs.")
    ids = [run.manifest.run_id for run in runs]
    labels = _labels(runs)
    base = runs[baseline]
    others = [index for index in range(len(runs)) if index != baseline]
    comparability = {index: check(base, runs[index], allowed) for index in others}
    require(*((f"A: {labels[baseline]} and B: {labels[index]}", comparability[index]) for index in others))
    duplicates = [labels[index] for index in others if ids.count(ids[index]) > 1]
    if duplicates:
        raise InputError(f"the same run is given more than once: {', '.join(duplicates)}", remedy="Pass each run once.")
    marked = _share_quarantine(runs)
    common = set.intersection(*({task.digest for task in run.tasks} for run in runs))
    counted = {task.digest for run in marked for task in run.tasks if not task.quarantined}
    shared = common & counted
    restricted = [attrs.evolve(run, tasks=tuple(task for task in run.tasks if task.digest in shared)) for run in runs]
    with_common = [
        attrs.evolve(run, tasks=tuple(task for task in run.tasks if task.digest in common)) for run in marked
    ]
    aligned = {index: align(with_common[baseline], with_common[index]) for index in others}
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
    other_cases = {index: alternatives(aligned[index], questions[index]) for index in others}
    against = {
        index: _against(
            comparability[index],
            aligned[index],
            index,
            estimates,
            other_cases,
            questions[index],
            compare_metrics(base, runs[index], aligned[index].pairs, confidence),
        )
        for index in others
    }
    rated = {digest for digest in shared if all(run.by_digest[digest].scored for run in runs)}
    return CompareReport(
        suite=base.manifest.suite,
        baseline=labels[baseline],
        confidence=confidence,
        runs=tuple(
            _compared(label, run, rated, against.get(index), confidence)
            for index, (label, run) in enumerate(zip(labels, restricted, strict=True))
        ),
        omnibus=_omnibus(restricted, list(aligned.values())),
        tasks=_tasks(restricted, baseline),
        quarantined=quarantined_across(runs),
        left_out=len(counted - shared),
    )


def _share_quarantine(runs: Sequence[RunCounts]) -> Sequence[RunCounts]:
    """The same runs, with the quarantined tasks of any run quarantined in all runs."""
    reasons = {task.digest: task.quarantined for run in runs for task in run.tasks if task.quarantined}
    if not reasons:
        return runs
    return [
        attrs.evolve(
            run, tasks=tuple(attrs.evolve(task, quarantined=reasons.get(task.digest, "")) for task in run.tasks)
        )
        for run in runs
    ]


def _labels(runs: Sequence[RunCounts]) -> Sequence[str]:
    """Unique labels: the variant names, numbered if several runs use the same variant name."""
    names = [run.manifest.variant for run in runs]
    uses, used = Counter(names), set(names)
    labels = []
    for name in names:
        label = name
        if uses[name] > 1:
            label = next(numbered for n in count(1) if (numbered := f"{name} #{n}") not in used)
            used.add(label)
        labels.append(label)
    return labels


def _against(
    comparability: Comparability,
    aligned: Alignment,
    index: int,
    estimates: Mapping[int, Estimate],
    other_cases: Mapping[int, tuple[Estimate | None, Estimate | None]],
    question: Question,
    metrics: tuple[MetricComparison, ...],
) -> BaselineComparison:
    main = estimates[index]
    p_holm = _adjusted(main, index, estimates)
    worst, best = bounds(aligned, question)
    with_quarantined, without_suspected = other_cases[index]
    strict = attrs.evolve(question, confidence=1 - question.alpha / len(estimates))
    require_resamples((main, worst, best, with_quarantined, without_suspected), strict)
    adjusted = verdict(main.difference, p_holm, question.alpha)
    low, high = (None if one is None else _alternative(one, index, estimates, question.alpha) for one in (worst, best))
    including, excluding = (_other_case(case, index, estimates, other_cases, question.alpha) for case in (0, 1))
    subject = "this run"
    return BaselineComparison(
        verdict=adjusted,
        robust=all(one is None or one.verdict == adjusted for one in (low, high)),
        about_missing=about_missing(len(aligned.incomplete), len(aligned.valid), adjusted, low, high, subject),
        estimate=main,
        worst=worst,
        best=best,
        with_quarantined=with_quarantined,
        without_suspected=without_suspected,
        suspected=aligned.suspected,
        about_aside=about_excluded(
            len(aligned.quarantined), aligned.suspected, adjusted, including, excluding, subject
        ),
        p_holm=p_holm,
        detectable=detectable(main, aligned.differences(), strict),
        metrics=metrics,
        complete_pairs=len(aligned.complete),
        incomplete=len(aligned.incomplete),
        invalid=tuple(pair.task_id for pair in aligned.invalid),
        same_variant=comparability.same_variant,
        same_terms=comparability.same_terms,
        overridden=comparability.overridden,
        warnings=comparability.warnings,
    )


def _adjusted(estimate: Estimate, index: int, estimates: Mapping[int, Estimate]) -> float:
    """The p-value of ``estimate`` for the run at ``index``, adjusted for the estimates of the other runs (Holm)."""
    ps = [estimate.p if other == index else estimate_.p for other, estimate_ in estimates.items()]
    return holm(ps)[[*estimates].index(index)]


def _alternative(estimate: Estimate, index: int, estimates: Mapping[int, Estimate], alpha: float) -> Alternative:
    p = _adjusted(estimate, index, estimates)
    return Alternative(difference=estimate.difference, p=p, verdict=verdict(estimate.difference, p, alpha))


def _other_case(
    case: int,
    index: int,
    estimates: Mapping[int, Estimate],
    other_cases: Mapping[int, tuple[Estimate | None, Estimate | None]],
    alpha: float,
) -> Alternative | None:
    """The result of an alternative case, adjusted for that case of the other runs, or for their main estimates.

    ``None`` if the run at ``index`` does not have the case.
    """
    result = other_cases[index][case]
    if result is None:
        return None
    return _alternative(result, index, {i: cases[case] or estimates[i] for i, cases in other_cases.items()}, alpha)


def _compared(
    label: str, run: RunCounts, rated: Collection[str], against: BaselineComparison | None, confidence: float
) -> ComparedRun:
    run_side = side(run, run.tasks, [task for task in run.tasks if task.digest in rated], confidence)
    return ComparedRun(
        label=label,
        side=run_side,
        cost_per_pass_usd=run_side.cost_usd / run_side.passed if run_side.passed else None,
        against=against,
    )


def _omnibus(runs: Sequence[RunCounts], aligned: Sequence[Alignment]) -> Omnibus | None:
    """Cochran's Q over tasks with a score in every run; ``None`` without tasks, with repeats, or for two runs."""
    if len(runs) < 3 or any(alignment.repeated for alignment in aligned):
        return None
    digests = [task.digest for task in runs[0].tasks]
    matched = [[run.by_digest[digest] for run in runs] for digest in digests]
    rows = [[task.passed for task in tasks] for tasks in matched if all(task.scored for task in tasks)]
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
                TaskCell(passed=task_run.passed, scored=task_run.scored, missing=task_run.missing)
                for task_run in (run.by_digest[task.digest] for run in runs)
            ),
        )
        for task in runs[baseline].tasks
    )
