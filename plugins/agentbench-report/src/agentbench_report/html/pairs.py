"""The comparison of two runs, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agentbench_report.comparison.alignment import TaskPair, align
from agentbench_report.comparison.estimates import Method
from agentbench_report.comparison.paired import compare_pair
from agentbench_report.comparison.refusals import check
from agentbench_report.counts import TaskCounts
from agentbench_report.html.listing import ListedAttempt, Side
from agentbench_report.statistics import PairTable

REGRESSED, IMPROVED, INCOMPLETE, SAME, ALONE = "regressed", "improved", "incomplete", "same", "in one run only"
QUARANTINED = "quarantined"
_ORDER = (REGRESSED, IMPROVED, INCOMPLETE, ALONE, QUARANTINED, SAME)


@attrs.frozen(kw_only=True)
class MatrixRow:
    """A task with its attempts in each run, which are empty if the run does not have the task."""

    task_id: str
    change: str
    a: Sequence[ListedAttempt]
    b: Sequence[ListedAttempt]


@attrs.frozen(kw_only=True)
class RunComparison:
    """Two runs, paired by the digests of their tasks."""

    headline: str
    """The headline of ``report paired``; empty if it refuses the comparison."""
    table: PairTable | None
    """``None`` with repeats, which are not independent."""
    pairs: int
    left_out: int
    """The number of pairs without a score on at least one side, which are not in the table."""
    rows: Sequence[MatrixRow]
    changes: Mapping[str, int]
    """The number of tasks for each kind of change that occurs."""
    refusals: Sequence[tuple[str, str, str]]
    """Refusals of ``report paired``: the reason, and the evidence in A and B."""
    warnings: Sequence[str]


def compare_sides(a: Side, b: Side, listed: Sequence[ListedAttempt]) -> RunComparison:
    """Compare two runs."""
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
    return RunComparison(
        headline="" if comparability.refusals else compare_pair(a.counts, b.counts, method=method).headline,
        table=None if aligned.repeated else aligned.table(),
        pairs=len(aligned.pairs) + len(aligned.quarantined),
        left_out=sum(not pair.complete for pair in aligned.pairs),
        rows=rows,
        changes={change: n for change in _ORDER if (n := sum(each.change == change for each in rows))},
        refusals=[(attempt.reason, attempt.a, attempt.b) for attempt in comparability.refusals],
        warnings=comparability.warnings,
    )


def _change(pair: TaskPair) -> str:
    difference = pair.difference()
    if difference is None:
        return INCOMPLETE
    return SAME if difference == 0 else IMPROVED if difference > 0 else REGRESSED
