"""The list of attempts of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from agentbench_core import AttemptRow, InputError, RunView
from agentbench_core.harness import DateRange
from agentbench_report.counts import RunCounts
from agentbench_report.reading import count
from agentbench_report.summary import RunSummary, summarise

PASSED, FAILED, MISSING = "passed", "failed", "missing"
RESULTS = (PASSED, FAILED, MISSING)
NOT_RECORDED = "not recorded"
MOST = 200_000
"""The maximum number of planned attempts, since an untrusted ``run.json`` can plan any number."""


@attrs.frozen(kw_only=True)
class Side:
    """One of the runs of a report. ``letter`` is A or B, or empty if there is only one run."""

    letter: str
    counts: RunCounts
    summary: RunSummary

    @property
    def view(self) -> RunView:
        """Access to the evidence of the run."""
        return self.counts.view


@attrs.frozen(kw_only=True)
class ListedAttempt:
    """An attempt as a row of the table. ``number`` is unique in the report."""

    number: int
    side: str
    view: RunView
    task_id: str
    digest: str
    repeat: int
    row: AttemptRow | None
    """``None`` for a planned attempt without a record."""
    quarantined: bool
    """Whether the task is quarantined."""

    @property
    def result(self) -> str:
        """``passed``, ``failed`` or ``missing``."""
        return result(self.row)

    @property
    def reason(self) -> str:
        """The failure reason, or ``NOT_RECORDED`` without a record; empty if the attempt passed."""
        return NOT_RECORDED if self.row is None else self.row.result.failure_reason or ""

    @property
    def name(self) -> str:
        """The task id, followed by the repeat unless it is the first."""
        return self.task_id if self.repeat == 1 else f"{self.task_id}@{self.repeat}"


def result(row: AttemptRow | None) -> str:
    """``passed``, ``failed``, or ``missing`` for attempts without a score, which are not failures."""
    if row is None or not row.scored:
        return MISSING
    return PASSED if row.result.passed else FAILED


def sides(views: Sequence[RunView], dates: DateRange) -> Sequence[Side]:
    """Read the one or two runs of a report, with the tasks in a range of dates."""
    runs = []
    for letter, view in zip("AB" if len(views) > 1 else [""], views, strict=True):
        counts = count(view, dates)
        runs.append(Side(letter=letter, counts=counts, summary=summarise(counts)))
    return runs


def listing(runs: Sequence[Side]) -> Sequence[ListedAttempt]:
    """All recorded or planned attempts, sorted by run, task and repeat. Raises InputError for more than ``MOST``."""
    attempts: list[ListedAttempt] = []
    for side in runs:
        manifest = side.counts.manifest
        if (planned := manifest.planned) > MOST:
            raise InputError(f"{side.view.directory} has {planned} planned attempts, but a page shows at most {MOST}")
        quarantined = {(task.task_id, task.digest) for task in side.counts.tasks if task.quarantined}
        for task_id, repeat, digest, row in sorted(_attempts(side), key=lambda each: each[:3]):
            attempts.append(
                ListedAttempt(
                    number=len(attempts) + 1,
                    side=side.letter,
                    view=side.view,
                    task_id=task_id,
                    digest=digest,
                    repeat=repeat,
                    row=row,
                    quarantined=(task_id, digest) in quarantined,
                )
            )
    return attempts


def _attempts(side: Side) -> Iterator[tuple[str, int, str, AttemptRow | None]]:
    recorded = set()
    for row in side.view.rows():
        if not side.counts.selects(row.task_id):
            continue
        recorded.add((row.task_id, row.task_digest, row.repeat))
        yield row.task_id, row.repeat, row.task_digest, row
    for task in filter(lambda task: side.counts.selects(task.id), side.counts.manifest.tasks):
        for repeat in side.counts.manifest.planned_repeats(task.id):
            if (task.id, task.digest, repeat) not in recorded:
                yield task.id, repeat, task.digest, None
