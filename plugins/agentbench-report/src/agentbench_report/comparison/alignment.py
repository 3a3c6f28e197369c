"""Pair the tasks of two runs by digest, never by name or position."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from agentbench_core import InputError
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.reading import shown
from agentbench_report.statistics import PairTable


class Missing(enum.StrEnum):
    """How to treat attempts without a score."""

    LEFT_OUT = "left_out"
    """Compare only pairs with a score on both sides."""
    WORST = "worst"
    """Assume the worst case for B: B's missing attempts failed and A's passed."""
    BEST = "best"
    """Assume the best case for B: B's missing attempts passed and A's failed."""


@attrs.frozen(kw_only=True)
class TaskPair:
    """A task in both runs. ``task_id`` is its id in A."""

    task_id: str
    digest: str
    a: TaskCounts
    b: TaskCounts

    @property
    def complete(self) -> bool:
        """Whether both sides have a score."""
        return self.a.scored > 0 and self.b.scored > 0

    @property
    def incomplete(self) -> bool:
        """Whether a planned attempt of either side has no score. Invalid tasks are never incomplete."""
        return not self.invalid and (self.a.missing > 0 or self.b.missing > 0)

    @property
    def quarantined(self) -> bool:
        """Whether either run quarantined the task, which excludes it from both runs."""
        return bool(self.a.quarantined or self.b.quarantined)

    @property
    def quarantine_mismatch(self) -> bool:
        """Whether only one of the runs quarantined the task."""
        return bool(self.a.quarantined) is not bool(self.b.quarantined)

    @property
    def suspected(self) -> int:
        """The number of scored attempts in both runs suspected of tampering or of leaked information."""
        return self.a.suspected + self.b.suspected

    def cleared(self) -> TaskPair:
        """The same pair with suspect attempts treated as unscored."""
        return attrs.evolve(self, a=self.a.cleared(), b=self.b.cleared())

    @property
    def invalid(self) -> bool:
        """Whether every attempt of both runs found the task invalid, so that no attempt could be scored."""
        return self.a.invalid_throughout and self.b.invalid_throughout

    def counts(self, missing: Missing = Missing.LEFT_OUT) -> tuple[int, int, int, int] | None:
        """The passed and total attempts in A, then in B; ``None`` if either has none to count, or if ``invalid``."""
        a, b = self.a, self.b
        if self.invalid:
            return None
        if missing is Missing.LEFT_OUT:
            counts = (a.passed, a.scored, b.passed, b.scored)
        elif missing is Missing.WORST:
            counts = (a.passed + a.missing, a.planned, b.passed, b.planned)
        else:
            counts = (a.passed, a.planned, b.passed + b.missing, b.planned)
        return counts if counts[1] and counts[3] else None

    def difference(self, missing: Missing = Missing.LEFT_OUT) -> float | None:
        """Pass rate in B minus pass rate in A, from -1 to 1; ``None`` if :meth:`counts` is ``None``."""
        counts = self.counts(missing)
        if counts is None:
            return None
        passed_a, total_a, passed_b, total_b = counts
        # Round only once, so that equal rates differ by exactly 0 and equal differences compare equal.
        return (passed_b * total_a - passed_a * total_b) / (total_a * total_b)


@attrs.frozen(kw_only=True)
class Alignment:
    """The paired tasks of two runs. Every task of either run is in exactly one of the tuples."""

    pairs: tuple[TaskPair, ...]
    only_a: tuple[TaskCounts, ...]
    only_b: tuple[TaskCounts, ...]
    quarantined: tuple[TaskPair, ...] = ()
    """Tasks in both runs that at least one of them quarantined. They are not counted."""
    quarantined_only_a: tuple[TaskCounts, ...] = ()
    """Quarantined tasks that are only in A."""
    quarantined_only_b: tuple[TaskCounts, ...] = ()

    @property
    def quarantine_mismatch(self) -> tuple[TaskPair, ...]:
        """Tasks in both runs that only one of them quarantined."""
        return tuple(pair for pair in self.quarantined if pair.quarantine_mismatch)

    @property
    def suspected(self) -> int:
        """The number of scored attempts at counted tasks, in both runs, suspected of tampering or leaked
        information."""
        return sum(pair.suspected for pair in self.pairs)

    def with_quarantined(self) -> Alignment:
        """The same alignment with the quarantined tasks of both runs counted as pairs."""
        return attrs.evolve(self, pairs=(*self.pairs, *self.quarantined), quarantined=())

    def without_suspected(self) -> Alignment:
        """The same alignment with suspect attempts treated as unscored."""
        return attrs.evolve(self, pairs=tuple(pair.cleared() for pair in self.pairs))

    @property
    def complete(self) -> tuple[TaskPair, ...]:
        """Pairs with a score on both sides."""
        return tuple(pair for pair in self.pairs if pair.complete)

    @property
    def incomplete(self) -> tuple[TaskPair, ...]:
        """Pairs with an attempt without a score in either run. With repeats, such a pair can still be complete."""
        return tuple(pair for pair in self.pairs if pair.incomplete)

    @property
    def valid(self) -> tuple[TaskPair, ...]:
        """Pairs that are not ``invalid``."""
        return tuple(pair for pair in self.pairs if not pair.invalid)

    @property
    def invalid(self) -> tuple[TaskPair, ...]:
        """Pairs that are invalid in both runs. They are not counted, not even as missing."""
        return tuple(pair for pair in self.pairs if pair.invalid)

    @property
    def renamed(self) -> tuple[TaskPair, ...]:
        """Pairs with different task ids in the two runs."""
        return tuple(pair for pair in self.pairs if pair.a.task_id != pair.b.task_id)

    @property
    def changed(self) -> tuple[tuple[TaskCounts, TaskCounts], ...]:
        """Unpaired tasks that have the same id in both runs but different digests, as (task in A, task in B)."""
        in_b = {task.task_id: task for task in self.only_b}
        return tuple((task, in_b[task.task_id]) for task in self.only_a if task.task_id in in_b)

    @property
    def repeated(self) -> bool:
        """Whether a run planned several attempts at a paired task. If so, there are rates per task, but no table."""
        return any(pair.a.planned > 1 or pair.b.planned > 1 for pair in (*self.pairs, *self.quarantined))

    def table(self, missing: Missing = Missing.LEFT_OUT) -> PairTable:
        """The numbers of tasks that passed in both runs, in one of them, or in neither.

        Raises:
            ValueError: a task has several attempts, which are not independent and must not be counted as pairs.
        """
        if self.repeated:
            raise ValueError("pairs can only be counted with one attempt per task")
        cells: Counter[tuple[bool, bool]] = Counter()
        for pair in self.pairs:
            counts = pair.counts(missing)
            if counts is not None:
                cells[counts[0] > 0, counts[2] > 0] += 1
        return PairTable(
            both_pass=cells[True, True],
            regressions=cells[True, False],
            improvements=cells[False, True],
            both_fail=cells[False, False],
        )

    def differences(self, missing: Missing = Missing.LEFT_OUT) -> tuple[float, ...]:
        """The difference of each pair that has one, in the order of ``pairs``."""
        differences = (pair.difference(missing) for pair in self.pairs)
        return tuple(difference for difference in differences if difference is not None)


def align(a: RunCounts, b: RunCounts) -> Alignment:
    """Pair the tasks of two runs by digest, sorted by their ids in A.

    Raises:
        InputError: a run contains the same task twice, which makes pairs ambiguous.
    """
    in_a, in_b = _by_digest(a), _by_digest(b)
    shared = [(task, in_b[digest]) for digest, task in in_a.items() if digest in in_b]
    pairs = [
        TaskPair(task_id=task.task_id, digest=task.digest, a=task, b=other)
        for task, other in sorted(shared, key=lambda pair: (pair[0].task_id, pair[0].digest))
    ]
    unpaired = [
        _sorted(task for digest, task in tasks.items() if digest not in others)
        for tasks, others in ((in_a, in_b), (in_b, in_a))
    ]
    (only_a, quarantined_only_a), (only_b, quarantined_only_b) = map(_split_quarantined, unpaired)
    return Alignment(
        pairs=tuple(pair for pair in pairs if not pair.quarantined),
        only_a=only_a,
        only_b=only_b,
        quarantined=tuple(pair for pair in pairs if pair.quarantined),
        quarantined_only_a=quarantined_only_a,
        quarantined_only_b=quarantined_only_b,
    )


def _split_quarantined(tasks: Sequence[TaskCounts]) -> tuple[tuple[TaskCounts, ...], tuple[TaskCounts, ...]]:
    """Split tasks into counted and quarantined tasks."""
    return tuple(t for t in tasks if not t.quarantined), tuple(t for t in tasks if t.quarantined)


def _by_digest(run: RunCounts) -> Mapping[str, TaskCounts]:
    tasks: dict[str, TaskCounts] = {}
    for task in run.tasks:
        other = tasks.setdefault(task.digest, task)
        if other is not task:
            raise InputError(
                f"run {shown(run.manifest.run_id)} contains the same task twice, as {shown(other.task_id)} and "
                f"{shown(task.task_id)} ({shown(task.digest)})",
                remedy="Compare only runs that contain each task once.",
            )
    return tasks


def _sorted(tasks: Iterable[TaskCounts]) -> tuple[TaskCounts, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.task_id, task.digest)))
