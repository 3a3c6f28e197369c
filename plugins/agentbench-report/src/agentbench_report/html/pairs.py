"""The comparison of two runs, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agentbench_report.comparison.alignment import TaskPair, align
from agentbench_report.comparison.estimates import Method
from agentbench_report.comparison.paired import compare_pair
from agentbench_report.comparison.paired_report import PairedReport
from agentbench_report.comparison.refusals import check
from agentbench_report.counts import TaskCounts
from agentbench_report.html import plots
from agentbench_report.html.amounts import Amounts, amounts
from agentbench_report.html.listing import FAILED, PASSED, ListedAttempt, Side
from agentbench_report.html.overview import Plot
from agentbench_report.html.wording import share
from agentbench_report.statistics import PairTable

REGRESSED, IMPROVED, INCOMPLETE, SAME, ALONE = "regressed", "improved", "incomplete", "same", "in one run only"
QUARANTINED = "quarantined"
REGRESSIONS, GAINS, BOTH_PASSED, BOTH_FAILED = "regressions", "gains", "both passed", "both failed"
SAME_RATE, NOT_PAIRED, NOT_COUNTED = "same rate", "not paired", "quarantined"
_KINDS = (REGRESSIONS, GAINS, BOTH_FAILED, BOTH_PASSED, SAME_RATE, NOT_PAIRED, NOT_COUNTED)
"""The kinds of rows, for filtering. ``same rate``: some repeats passed, and the number is the same in both runs."""
_BY_CHANGE = {
    REGRESSED: REGRESSIONS,
    IMPROVED: GAINS,
    INCOMPLETE: NOT_PAIRED,
    ALONE: NOT_PAIRED,
    QUARANTINED: NOT_COUNTED,
}
_ORDER = (REGRESSED, IMPROVED, INCOMPLETE, ALONE, QUARANTINED, SAME)


@attrs.frozen(kw_only=True)
class MatrixRow:
    """A task with its attempts in each run, which are empty if the run does not have the task."""

    task_id: str
    change: str
    a: Sequence[ListedAttempt]
    b: Sequence[ListedAttempt]

    @property
    def kind(self) -> str:
        """The kind of the row, see ``_KINDS``."""
        if self.change != SAME:
            return _BY_CHANGE[self.change]
        results = {attempt.result for attempt in (*self.a, *self.b)}
        return BOTH_PASSED if results == {PASSED} else BOTH_FAILED if results == {FAILED} else SAME_RATE

    @property
    def pair(self) -> tuple[int, int] | None:
        """The numbers of the two attempts that show the change, to open side by side, if both runs have a page."""
        wanted = {REGRESSED: (PASSED, FAILED), IMPROVED: (FAILED, PASSED)}.get(self.change, ("", ""))
        a, b = (_first(attempts, result) for attempts, result in zip((self.a, self.b), wanted, strict=True))
        return None if a is None or b is None else (a.number, b.number)


def _first(attempts: Sequence[ListedAttempt], result: str) -> ListedAttempt | None:
    """The first attempt that has a page and the given result, or otherwise the first that has a page."""
    shown = [attempt for attempt in attempts if attempt.row is not None]
    return next((attempt for attempt in shown if attempt.result == result), shown[0] if shown else None)


@attrs.frozen(kw_only=True)
class RunComparison:
    """Two runs, paired by the digests of their tasks."""

    headline: str
    """The headline of ``report paired``; empty if it refuses the comparison."""
    table: PairTable | None
    """``None`` with repeats, which are not independent."""
    pairs: int
    left_out: int
    """The number of pairs that are not in the table because at least one side has no score."""
    difference: Plot | None
    """The paired difference with its interval; ``None`` if the comparison is refused or no task has a score."""
    amounts: Amounts | None
    """Cost, tokens, steps and time; ``None`` in the same cases as ``difference``."""
    rows: Sequence[MatrixRow]
    kinds: Mapping[str, int]
    """The number of tasks of each kind that occurs."""
    refusals: Sequence[tuple[str, str, str]]
    """Refusals of ``report paired``: the reason, and the evidence in A and B."""
    warnings: Sequence[str]


def compare_sides(a: Side, b: Side, listed: Sequence[ListedAttempt], margin: float | None = None) -> RunComparison:
    """Compare two runs. The ``margin`` is the accepted loss in pass rate, such as 0.05, and is drawn in the plot."""
    aligned = align(a.counts, b.counts)
    attempts: dict[tuple[str, str], list[ListedAttempt]] = {}
    for attempt in listed:
        attempts.setdefault((attempt.side, attempt.digest), []).append(attempt)

    def row(task: TaskCounts, change: str) -> MatrixRow:
        cells = [attempts.get((side.letter, task.digest), []) for side in (a, b)]
        return MatrixRow(task_id=task.task_id, change=change, a=cells[0], b=cells[1])

    rows = [row(pair.a, _change(pair)) for pair in aligned.pairs]
    rows += [row(pair.a, QUARANTINED) for pair in aligned.quarantined]
    rows += [
        row(task, ALONE)
        for task in (*aligned.only_a, *aligned.only_b, *aligned.quarantined_only_a, *aligned.quarantined_only_b)
    ]
    rows.sort(key=lambda each: (_ORDER.index(each.change), each.task_id))
    comparability = check(a.counts, b.counts)
    method: Method = "bootstrap" if aligned.repeated else "mcnemar"
    report = None if comparability.refusals else compare_pair(a.counts, b.counts, method=method)
    return RunComparison(
        headline="" if report is None else report.headline,
        difference=None if report is None else _difference(report, margin),
        amounts=None if report is None else amounts(report.metrics),
        table=None if aligned.repeated else aligned.table(),
        pairs=len(aligned.pairs) + len(aligned.quarantined),
        left_out=sum(not pair.complete for pair in aligned.pairs),
        rows=rows,
        kinds={kind: n for kind in _KINDS if (n := sum(each.kind == kind for each in rows))},
        refusals=[(attempt.reason, attempt.a, attempt.b) for attempt in comparability.refusals],
        warnings=comparability.warnings,
    )


def _change(pair: TaskPair) -> str:
    difference = pair.difference()
    if difference is None:
        return INCOMPLETE
    return SAME if difference == 0 else IMPROVED if difference > 0 else REGRESSED


def _difference(report: PairedReport, margin: float | None) -> Plot | None:
    main, worst, best = report.estimate, report.worst, report.best
    if main.difference is None:
        return None
    bounds = [case.difference for case in (worst, best) if case is not None and case.difference is not None]
    interval = f"{_points(main.interval.low)} to {_points(main.interval.high)} pp"
    rows = [
        ("pass rate A", share(main.pass_rate_a), "", f"{main.tasks:,}"),
        ("pass rate B", share(main.pass_rate_b), "", f"{main.tasks:,}"),
        ("difference", f"{_points(main.difference)} pp", interval, f"{main.tasks:,}"),
    ]
    rows += [
        (f"difference, {name}", f"{_points(case.difference)} pp", "", f"{case.tasks:,}")
        for name, case in (("worst case", worst), ("best case", best))
        if case is not None and case.difference is not None
    ]
    shaded = " Shaded: range if attempts without a score had all passed in one run and failed in the other."
    return Plot(
        title="Difference in pass rate, B minus A",
        svg=plots.difference(main.difference, main.interval.low, main.interval.high, bounds, margin),
        label=f"{_points(main.difference)} percentage points, CI {interval}, over {main.tasks:,} paired tasks"
        + ("" if margin is None else f", margin {100 * margin:g} percentage points"),
        note=f"Line: {100 * main.interval.confidence:.4g}% CI over {main.tasks:,} paired tasks."
        + (" Dashed: the margin." if margin is not None else "")
        + (shaded if len(set(bounds)) > 1 else ""),
        header=("quantity", "value", "CI", "tasks"),
        rows=rows,
    )


def _points(difference: float) -> str:
    return f"{100 * difference:+z.1f}"
