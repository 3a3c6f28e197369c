"""Any number of runs on the same tasks, each held against one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.aside import quarantined_across
from agentbench_report.comparison.comparable import Comparability, check, require
from agentbench_report.comparison.compare_report import Against, Compared, CompareReport, Omnibus, TaskAcross, TaskCell
from agentbench_report.comparison.detectable import detectable, require_resamples
from agentbench_report.comparison.estimates import Estimate, Question, beside, bounds, estimate, verdict
from agentbench_report.comparison.grounds import Ground
from agentbench_report.comparison.paired import side
from agentbench_report.comparison.verdicts import Bound, about_aside, about_missing
from agentbench_report.counts import RunCounts
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
            that speaks against it is told at once; or ``resamples`` are too few for the level that is left for one of
            the comparisons.
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
    marked = _marked(runs)
    common = set.intersection(*({task.digest for task in run.tasks} for run in runs))
    every = {task.digest for run in marked for task in run.tasks if not task.quarantined}
    shared = common & every
    cut = [attrs.evolve(run, tasks=tuple(task for task in run.tasks if task.digest in shared)) for run in runs]
    whole = [attrs.evolve(run, tasks=tuple(task for task in run.tasks if task.digest in common)) for run in marked]
    aligned = {index: align(whole[baseline], whole[index]) for index in others}
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
    other_cases = {index: beside(aligned[index], questions[index]) for index in others}
    against = {
        index: _against(found[index], aligned[index], index, estimates, other_cases, questions[index])
        for index in others
    }
    rated = {digest for digest in shared if all(run.by_digest[digest].scored for run in runs)}
    return CompareReport(
        suite=base.manifest.suite,
        baseline=labels[baseline],
        confidence=confidence,
        runs=tuple(
            _compared(label, run, rated, against.get(index), confidence)
            for index, (label, run) in enumerate(zip(labels, cut, strict=True))
        ),
        omnibus=_omnibus(cut, list(aligned.values())),
        tasks=_tasks(cut, baseline),
        quarantined=quarantined_across(runs),
        left_out=len(every - shared),
    )


def _marked(runs: Sequence[RunCounts]) -> Sequence[RunCounts]:
    """The same runs, with what any of them says is quarantined quarantined in all of them."""
    said = {task.digest: task.quarantined for run in runs for task in run.tasks if task.quarantined}
    return [
        attrs.evolve(run, tasks=tuple(attrs.evolve(task, quarantined=said.get(task.digest, "")) for task in run.tasks))
        if said
        else run
        for run in runs
    ]


def _labels(runs: Sequence[RunCounts]) -> Sequence[str]:
    """The variants, numbered where several runs are of one; no label is that of another run."""
    names = [run.manifest.variant for run in runs]
    several, taken = Counter(names), set(names)
    labels = []
    for name in names:
        label = name
        if several[name] > 1:
            label = next(numbered for n in count(1) if (numbered := f"{name} #{n}") not in taken)
            taken.add(label)
        labels.append(label)
    return labels


def _against(
    found: Comparability,
    aligned: Alignment,
    index: int,
    estimates: Mapping[int, Estimate],
    other_cases: Mapping[int, tuple[Estimate | None, Estimate | None]],
    question: Question,
) -> Against:
    main = estimates[index]
    p_holm = _adjusted(main, index, estimates)
    worst, best = bounds(aligned, question)
    with_quarantined, without_suspected = other_cases[index]
    strict = attrs.evolve(question, confidence=1 - question.alpha / len(estimates))
    require_resamples((main, worst, best, with_quarantined, without_suspected), strict)
    judged = verdict(main.difference, p_holm, question.alpha)
    low, high = (None if one is None else _bound(one, index, estimates, question.alpha) for one in (worst, best))
    with_, without = (_other_bound(case, index, estimates, other_cases, question.alpha) for case in (0, 1))
    return Against(
        verdict=judged,
        robust=all(one is None or one.verdict == judged for one in (low, high)),
        about_missing=about_missing(len(aligned.incomplete), len(aligned.valid), judged, low, high, "it"),
        estimate=main,
        worst=worst,
        best=best,
        with_quarantined=with_quarantined,
        without_suspected=without_suspected,
        suspected=aligned.suspected,
        about_aside=about_aside(len(aligned.quarantined), aligned.suspected, judged, with_, without, "it"),
        p_holm=p_holm,
        detectable=detectable(main, aligned.differences(), strict),
        complete_pairs=len(aligned.complete),
        incomplete=len(aligned.incomplete),
        invalid=tuple(pair.task_id for pair in aligned.invalid),
        same_variant=found.same_variant,
        same_terms=found.same_terms,
        overridden=found.overridden,
        warnings=found.warnings,
    )


def _adjusted(one: Estimate, index: int, estimates: Mapping[int, Estimate]) -> float:
    """The p of a run, among those that the other runs have (Holm)."""
    return holm([one.p if other == index else found.p for other, found in estimates.items()])[[*estimates].index(index)]


def _bound(one: Estimate, index: int, estimates: Mapping[int, Estimate], alpha: float) -> Bound:
    p = _adjusted(one, index, estimates)
    return Bound(difference=one.difference, p=p, verdict=verdict(one.difference, p, alpha))


def _other_bound(
    case: int,
    index: int,
    estimates: Mapping[int, Estimate],
    other_cases: Mapping[int, tuple[Estimate | None, Estimate | None]],
    alpha: float,
) -> Bound | None:
    """A case in which the other runs are otherwise, too, where they have it."""
    one = other_cases[index][case]
    if one is None:
        return None
    return _bound(one, index, {i: cases[case] or estimates[i] for i, cases in other_cases.items()}, alpha)


def _compared(
    label: str, run: RunCounts, rated: Collection[str], against: Against | None, confidence: float
) -> Compared:
    beside = side(run, run.tasks, [task for task in run.tasks if task.digest in rated], confidence)
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
