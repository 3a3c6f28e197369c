"""Count a run directory: records are read once, and not kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from agentbench_core import AttemptRow, InputError, RunView, open_run
from agentbench_report.counts import Limits, RunCounts, Sandbox, TaskCounts, summed

TAMPERED = "TAMPERED"
TAMPER_CONFIRMED = "tamper_confirmed"
SUSPICIONS = frozenset({"tamper_suspected", "leak_suspected"})
"""Labels of attempts that headlines are also told without. What is confirmed has failed already, and a weak verdict is
a property of the task's commands: neither is a suspicion."""
INTEGRITY = SUSPICIONS | {TAMPER_CONFIRMED}
"""Labels that stay with a task also when the attempt was tried again."""


def read(directory: Path) -> RunCounts:
    """Count a run. Records are read once and not kept.

    Raises:
        InputError: it is no run directory, or damaged, or has one task twice.
    """
    return count(open_run(directory))


def shown(text: str) -> str:
    """Text from outside on one line of a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def count(view: RunView) -> RunCounts:
    """The same, of a run that is open."""
    manifest = view.manifest
    tallies: dict[tuple[str, str], _Tally] = {(task.id, task.digest): _Tally() for task in manifest.tasks}
    if len({digest for _, digest in tallies}) < len(manifest.tasks):
        names = Counter(task.digest for task in manifest.tasks)
        twice = sorted(task.id for task in manifest.tasks if names[task.digest] > 1)
        raise InputError(
            f"{view.directory} has one task more than once: {', '.join(map(shown, twice[:5]))}",
            remedy="Results of one task cannot count twice: run the suite without its copies.",
        )
    for row, counts in view.all_rows():
        # A run that was resumed although a task had changed has records of another task of that name.
        key = (row.task_id, row.task_digest)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally()
        if counts:
            tally.add(row)
        else:
            tally.add_earlier(row)
    recorded: Counter[str] = Counter()
    for (task_id, _), tally in tallies.items():
        recorded[task_id] += tally.recorded
    left = {(task.id, task.digest): manifest.repeats - recorded[task.id] for task in manifest.tasks}
    # A task that changed before anybody attempted it is no task of this run any more.
    counted = {
        key: tally for key, tally in tallies.items() if tally.recorded or left.get(key, 0) > 0 or key not in left
    }
    aside = {(task.id, task.digest): task.quarantined for task in manifest.tasks}
    tasks = (tally.counts(*key, max(0, left.get(key, 0)), aside.get(key, "")) for key, tally in sorted(counted.items()))
    return RunCounts(view=view, tasks=tuple(tasks))


class _Tally:
    """What is kept of a task while records stream by."""

    __slots__ = (
        *("passed", "scored", "unscored", "steps", "tokens", "replayed", "reasons", "unscored_reasons", "labels"),
        *("durations", "costs", "limits", "environments", "sandboxes", "passes", "fails", "others"),
        *("suspected", "suspected_passed"),
    )

    def __init__(self) -> None:
        self.passed = self.scored = self.unscored = self.steps = self.tokens = self.replayed = 0
        self.suspected = self.suspected_passed = 0
        self.reasons: defaultdict[str, int] = defaultdict(int)
        self.unscored_reasons: defaultdict[str, int] = defaultdict(int)
        self.labels: defaultdict[str, int] = defaultdict(int)
        self.durations = self.costs = 0.0
        self.limits: set[tuple[float, float, int]] = set()
        self.environments: set[str] = set()
        self.sandboxes: set[tuple[str, bool, str]] = set()
        self.passes: list[int] = []
        self.fails: list[int] = []
        self.others: list[int] = []

    def add(self, row: AttemptRow) -> None:
        result, usage, limits, sandbox = row.result, row.usage, row.limits, row.sandbox
        if row.scored:
            self.scored += 1
            self.passed += result.passed
            (self.passes if result.passed else self.fails).append(row.repeat)
        else:
            self.unscored += 1
            self.others.append(row.repeat)
        if result.failure_reason is not None:
            self.reasons[result.failure_reason] += 1
            if not row.scored:
                self.unscored_reasons[result.failure_reason] += 1
        if row.labels:
            self._label({label.name for label in row.labels}, row)
        self.steps += usage.steps
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.durations += row.duration_sec
        self.costs += usage.cost_usd
        self.replayed += row.replayed
        self.limits.add((limits.timeout_sec, limits.tool_timeout_sec, limits.max_steps))
        self.sandboxes.add((sandbox.name, sandbox.isolated, sandbox.network))
        if sandbox.environment_digest is not None:
            self.environments.add(sandbox.environment_digest)

    def _label(self, names: set[str], row: AttemptRow) -> None:
        for name in names:
            self.labels[name] += 1
        convicted = TAMPER_CONFIRMED in names or row.result.failure_reason == TAMPERED
        if row.scored and not convicted and not names.isdisjoint(SUSPICIONS):
            self.suspected += 1
            self.suspected_passed += row.result.passed

    @property
    def recorded(self) -> int:
        """Attempts that have a record, each counted once."""
        return self.scored + self.unscored

    def add_earlier(self, row: AttemptRow) -> None:
        """An attempt that was tried again. Nothing of it counts but what tells of tampering: no second try for that."""
        for name in {label.name for label in row.labels} & INTEGRITY:
            self.labels[name] += 1
        if row.result.failure_reason == TAMPERED:
            self.labels[TAMPER_CONFIRMED] += 1

    def counts(self, task_id: str, digest: str, not_recorded: int, quarantined: str) -> TaskCounts:
        return TaskCounts(
            task_id=task_id,
            digest=digest,
            passed=self.passed,
            scored=self.scored,
            unscored=self.unscored,
            not_recorded=not_recorded,
            reasons=summed([self.reasons]),
            unscored_reasons=summed([self.unscored_reasons]),
            labels=summed([self.labels]),
            steps=self.steps,
            duration_sec=self.durations,
            tokens=self.tokens,
            cost_usd=self.costs,
            replayed=self.replayed,
            limits=frozenset(
                Limits(timeout_sec=timeout, tool_timeout_sec=tool, max_steps=steps)
                for timeout, tool, steps in self.limits
            ),
            environments=frozenset(self.environments),
            sandboxes=frozenset(
                Sandbox(name=name, isolated=isolated, network=network) for name, isolated, network in self.sandboxes
            ),
            repeats=tuple(sorted((*self.passes, *self.fails, *self.others))),
            passes=tuple(sorted(self.passes)),
            fails=tuple(sorted(self.fails)),
            quarantined=quarantined,
            suspected=self.suspected,
            suspected_passed=self.suspected_passed,
        )
