"""Count the attempts of a run directory, reading each record once and holding none in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import attrs

from agentbench_core import AttemptRow, InputError, RunView, open_run
from agentbench_core.harness import DateRange
from agentbench_report.counts import Effort, Limits, RunCounts, Sandbox, TaskCounts, summed

TAMPERED = "TAMPERED"
TAMPER_CONFIRMED = "tamper_confirmed"
SUSPICIONS = frozenset({"tamper_suspected", "leak_suspected"})
"""Labels of suspect attempts. Headline rates are also given without these attempts. Confirmed tampering is not included
since it already counts as a failure, and a weak verdict is not since it is a property of the task's commands."""
INTEGRITY = SUSPICIONS | {TAMPER_CONFIRMED}
"""Labels that a task retains even if the labeled attempt was retried."""

_ALL = DateRange()


def read(directory: Path, dates: DateRange = _ALL) -> RunCounts:
    """Count the attempts of a run directory at tasks in a range of dates.

    Raises:
        InputError: ``directory`` is not a run directory, is damaged, contains the same task twice, or has no task in
            the range.
    """
    return count(open_run(directory), dates)


def shown(text: str) -> str:
    """Untrusted text, escaped so that it can be printed on one line of a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def count(view: RunView, dates: DateRange = _ALL) -> RunCounts:
    """Count the attempts of an open run; see :func:`read`."""
    manifest, empty = view.manifest, RunCounts(view=view, tasks=(), dates=dates)
    entries = [task for task in manifest.tasks if dates.includes(task.date)]
    if dates.is_limited and not entries:
        raise InputError(
            f"no task in {view.directory} matches {empty.selection}",
            remedy="The date of a task is provenance.date in its task.yaml. Runs recorded before dates were introduced "
            "do not contain them. To repeat such a run: agentbench run --like DIR",
        )
    tallies: dict[tuple[str, str], _Tally] = {(task.id, task.digest): _Tally() for task in entries}
    if len({task.digest for task in manifest.tasks}) < len(manifest.tasks):
        names = Counter(task.digest for task in manifest.tasks)
        copies = sorted(task.id for task in manifest.tasks if names[task.digest] > 1)
        raise InputError(
            f"{view.directory} contains the same task more than once: {', '.join(map(shown, copies[:5]))}",
            remedy="Remove the copies from the suite and run it again, since a task cannot be counted twice.",
        )
    for row, counts in view.all_rows():
        # A run resumed after a task changed has records of two tasks with the same name.
        key = (row.task_id, row.task_digest)
        if not empty.selects(row.task_id):
            continue
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
    left = {(task.id, task.digest): len(manifest.planned_repeats(task.id)) - recorded[task.id] for task in entries}
    # A task that changed before its first attempt is no longer part of this run.
    counted = {
        key: tally for key, tally in tallies.items() if tally.recorded or left.get(key, 0) > 0 or key not in left
    }
    reasons = {(task.id, task.digest): task.quarantined for task in entries}
    tasks = (
        tally.counts(*key, max(0, left.get(key, 0)), reasons.get(key, "")) for key, tally in sorted(counted.items())
    )
    return attrs.evolve(empty, tasks=tuple(tasks))


class _Tally:
    """The running totals of one task."""

    __slots__ = (
        *("passed", "scored", "unscored", "steps", "tokens", "replayed", "reasons", "unscored_reasons", "labels"),
        *("durations", "costs", "limits", "environments", "sandboxes", "passes", "fails", "without_score"),
        *("suspected", "suspected_passed", "calls", "without_tokens"),
        *("scored_steps", "scored_duration", "scored_tokens", "scored_cost"),
    )

    def __init__(self) -> None:
        self.passed = self.scored = self.unscored = self.steps = self.tokens = self.replayed = 0
        self.suspected = self.suspected_passed = 0
        self.reasons: defaultdict[str, int] = defaultdict(int)
        self.unscored_reasons: defaultdict[str, int] = defaultdict(int)
        self.labels: defaultdict[str, int] = defaultdict(int)
        self.calls = self.without_tokens = self.scored_steps = self.scored_tokens = 0
        self.durations = self.costs = self.scored_duration = self.scored_cost = 0.0
        self.limits: set[tuple[float, float, int]] = set()
        self.environments: set[str] = set()
        self.sandboxes: set[tuple[str, bool, str]] = set()
        self.passes: list[int] = []
        self.fails: list[int] = []
        self.without_score: list[int] = []

    def add(self, row: AttemptRow) -> None:
        result, usage, limits, sandbox = row.result, row.usage, row.limits, row.sandbox
        if row.scored:
            self.scored += 1
            self.passed += result.passed
            self._effort(row)
            (self.passes if result.passed else self.fails).append(row.repeat)
        else:
            self.unscored += 1
            self.without_score.append(row.repeat)
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

    def _effort(self, row: AttemptRow) -> None:
        usage, tokens = row.usage, row.usage.prompt_tokens + row.usage.completion_tokens
        self.scored_steps += usage.steps
        self.scored_duration += row.duration_sec
        self.scored_tokens += tokens
        self.scored_cost += usage.cost_usd
        self.calls += usage.llm_calls
        self.without_tokens += usage.llm_calls > 0 and not tokens

    def _label(self, names: set[str], row: AttemptRow) -> None:
        for name in names:
            self.labels[name] += 1
        confirmed = TAMPER_CONFIRMED in names or row.result.failure_reason == TAMPERED
        if row.scored and not confirmed and not names.isdisjoint(SUSPICIONS):
            self.suspected += 1
            self.suspected_passed += row.result.passed

    @property
    def recorded(self) -> int:
        """The number of attempts with a record, not counting superseded ones."""
        return self.scored + self.unscored

    def add_earlier(self, row: AttemptRow) -> None:
        """Add the integrity labels of a superseded attempt, so that a retry cannot remove them."""
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
            effort=Effort(
                attempts=self.scored,
                steps=self.scored_steps,
                duration_sec=self.scored_duration,
                tokens=self.scored_tokens,
                cost_usd=self.scored_cost,
                llm_calls=self.calls,
                without_tokens=self.without_tokens,
            ),
            replayed=self.replayed,
            limits=frozenset(
                Limits(timeout_sec=timeout, tool_timeout_sec=tool, max_steps=steps)
                for timeout, tool, steps in self.limits
            ),
            environments=frozenset(self.environments),
            sandboxes=frozenset(
                Sandbox(name=name, isolated=isolated, network=network) for name, isolated, network in self.sandboxes
            ),
            repeats=tuple(sorted((*self.passes, *self.fails, *self.without_score))),
            passes=tuple(sorted(self.passes)),
            fails=tuple(sorted(self.fails)),
            quarantined=quarantined,
            suspected=self.suspected,
            suspected_passed=self.suspected_passed,
        )
