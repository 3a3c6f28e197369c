"""Which attempts of two runs belong together: pairs by task digest, never by name or by position."""

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
    """What is assumed of attempts without a score."""

    LEFT_OUT = "left_out"
    """Nothing: only pairs with a score on both sides are compared."""
    WORST = "worst"
    """The worst for B: each of B's failed, each of A's passed."""
    BEST = "best"
    """The best for B: each of B's passed, each of A's failed."""


@attrs.frozen(kw_only=True)
class TaskPair:
    """One task in both runs. ``task_id`` is its name in A."""

    task_id: str
    digest: str
    a: TaskCounts
    b: TaskCounts

    @property
    def complete(self) -> bool:
        """Both sides have a score, so the pair counts also when nothing is assumed."""
        return self.a.scored > 0 and self.b.scored > 0

    @property
    def incomplete(self) -> bool:
        """An attempt that was planned has no score, on either side. What is invalid lacks none."""
        return not self.invalid and (self.a.missing > 0 or self.b.missing > 0)

    @property
    def quarantined(self) -> bool:
        """One of the runs says that its grader flakes: then it counts in neither."""
        return bool(self.a.quarantined or self.b.quarantined)

    @property
    def disputed(self) -> bool:
        """Only one of them says so."""
        return bool(self.a.quarantined) is not bool(self.b.quarantined)

    @property
    def suspected(self) -> int:
        """Scored attempts of both that may have attacked their verdict or seen what they must not."""
        return self.a.suspected + self.b.suspected

    def cleared(self) -> TaskPair:
        """The same without a score for these."""
        return attrs.evolve(self, a=self.a.cleared(), b=self.b.cleared())

    @property
    def invalid(self) -> bool:
        """Both runs found, in every attempt, that there is nothing to repair: no attempt could have had a score."""
        return self.a.invalid_throughout and self.b.invalid_throughout

    def counts(self, missing: Missing = Missing.LEFT_OUT) -> tuple[int, int, int, int] | None:
        """(passed, of) in A and (passed, of) in B; ``None`` where one side has nothing to count."""
        a, b = self.a, self.b
        if self.invalid:
            return None
        if missing is Missing.LEFT_OUT:
            found = (a.passed, a.scored, b.passed, b.scored)
        elif missing is Missing.WORST:
            found = (a.passed + a.missing, a.planned, b.passed, b.planned)
        else:
            found = (a.passed, a.planned, b.passed + b.missing, b.planned)
        return found if found[1] and found[3] else None

    def difference(self, missing: Missing = Missing.LEFT_OUT) -> float | None:
        """Pass rate in B minus pass rate in A, between -1 and 1; ``None`` as for ``counts``."""
        found = self.counts(missing)
        if found is None:
            return None
        passed_a, of_a, passed_b, of_b = found
        # Rounded once: equal rates differ by exactly 0, and equal differences are equal.
        return (passed_b * of_a - passed_a * of_b) / (of_a * of_b)


@attrs.frozen(kw_only=True)
class Alignment:
    """Two runs side by side. Every task of either is in one of the tuples, and in no other."""

    pairs: tuple[TaskPair, ...]
    only_a: tuple[TaskCounts, ...]
    only_b: tuple[TaskCounts, ...]
    quarantined: tuple[TaskPair, ...] = ()
    """Tasks of both that one of them says are quarantined: they count nowhere."""
    aside_a: tuple[TaskCounts, ...] = ()
    """Quarantined tasks that only A has."""
    aside_b: tuple[TaskCounts, ...] = ()

    @property
    def disputed(self) -> tuple[TaskPair, ...]:
        """Those that only one of the runs says are quarantined."""
        return tuple(pair for pair in self.quarantined if pair.disputed)

    @property
    def suspected(self) -> int:
        """Scored attempts of both, at tasks that count, that may have attacked their verdict or seen too much."""
        return sum(pair.suspected for pair in self.pairs)

    def with_quarantined(self) -> Alignment:
        """The same as if nothing were quarantined."""
        return attrs.evolve(self, pairs=(*self.pairs, *self.quarantined), quarantined=())

    def without_suspected(self) -> Alignment:
        """The same as if what is suspected had no score."""
        return attrs.evolve(self, pairs=tuple(pair.cleared() for pair in self.pairs))

    @property
    def complete(self) -> tuple[TaskPair, ...]:
        """Pairs with a score on both sides."""
        return tuple(pair for pair in self.pairs if pair.complete)

    @property
    def incomplete(self) -> tuple[TaskPair, ...]:
        """Pairs in which an attempt has no score. With repeats, such a pair may be complete all the same."""
        return tuple(pair for pair in self.pairs if pair.incomplete)

    @property
    def valid(self) -> tuple[TaskPair, ...]:
        """Pairs that can tell something: all that are not ``invalid``."""
        return tuple(pair for pair in self.pairs if not pair.invalid)

    @property
    def invalid(self) -> tuple[TaskPair, ...]:
        """Pairs that are no task in either run; they count nowhere, also not as missing."""
        return tuple(pair for pair in self.pairs if pair.invalid)

    @property
    def renamed(self) -> tuple[TaskPair, ...]:
        """Pairs that have another name in each run."""
        return tuple(pair for pair in self.pairs if pair.a.task_id != pair.b.task_id)

    @property
    def changed(self) -> tuple[tuple[TaskCounts, TaskCounts], ...]:
        """Tasks of one name that are another task in each run: their digests differ, so they are no pairs."""
        in_b = {task.task_id: task for task in self.only_b}
        return tuple((task, in_b[task.task_id]) for task in self.only_a if task.task_id in in_b)

    @property
    def repeated(self) -> bool:
        """More than one attempt at a task was planned in a run. Then there is no table, only rates per task."""
        return any(pair.a.planned > 1 or pair.b.planned > 1 for pair in (*self.pairs, *self.quarantined))

    def table(self, missing: Missing = Missing.LEFT_OUT) -> PairTable:
        """How often both passed, one did, neither did.

        Raises:
            ValueError: a task has several attempts, which are not independent and must not be counted as pairs.
        """
        if self.repeated:
            raise ValueError("no table: there are several attempts at one task")
        cells: Counter[tuple[bool, bool]] = Counter()
        for pair in self.pairs:
            found = pair.counts(missing)
            if found is not None:
                cells[found[0] > 0, found[2] > 0] += 1
        return PairTable(
            both_pass=cells[True, True],
            regressions=cells[True, False],
            improvements=cells[False, True],
            both_fail=cells[False, False],
        )

    def differences(self, missing: Missing = Missing.LEFT_OUT) -> tuple[float, ...]:
        """The difference of each task, in the order of ``pairs``; tasks without one are left out."""
        every = (pair.difference(missing) for pair in self.pairs)
        return tuple(difference for difference in every if difference is not None)


def align(a: RunCounts, b: RunCounts) -> Alignment:
    """Pair the tasks of two runs by digest; sorted by their names in A.

    Raises InputError when a run has one task twice, since then nobody knows which belong together.
    """
    in_a, in_b = _by_digest(a), _by_digest(b)
    shared = [(task, in_b[digest]) for digest, task in in_a.items() if digest in in_b]
    pairs = [
        TaskPair(task_id=task.task_id, digest=task.digest, a=task, b=other)
        for task, other in sorted(shared, key=lambda pair: (pair[0].task_id, pair[0].digest))
    ]
    alone = [
        _sorted(task for digest, task in these.items() if digest not in others)
        for these, others in ((in_a, in_b), (in_b, in_a))
    ]
    (only_a, aside_a), (only_b, aside_b) = map(_parted, alone)
    return Alignment(
        pairs=tuple(pair for pair in pairs if not pair.quarantined),
        only_a=only_a,
        only_b=only_b,
        quarantined=tuple(pair for pair in pairs if pair.quarantined),
        aside_a=aside_a,
        aside_b=aside_b,
    )


def _parted(tasks: Sequence[TaskCounts]) -> tuple[tuple[TaskCounts, ...], tuple[TaskCounts, ...]]:
    """What counts, and what is quarantined."""
    return tuple(t for t in tasks if not t.quarantined), tuple(t for t in tasks if t.quarantined)


def _by_digest(run: RunCounts) -> Mapping[str, TaskCounts]:
    found: dict[str, TaskCounts] = {}
    for task in run.tasks:
        other = found.setdefault(task.digest, task)
        if other is not task:
            raise InputError(
                f"run {shown(run.manifest.run_id)} has one task twice, as {shown(other.task_id)} and "
                f"{shown(task.task_id)}: {shown(task.digest)}",
                remedy="Only runs in which each task is there once can be compared.",
            )
    return found


def _sorted(tasks: Iterable[TaskCounts]) -> tuple[TaskCounts, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.task_id, task.digest)))
