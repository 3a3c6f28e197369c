"""What one run says, as a value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from agentbench_core import AttemptRecord, RunManifest
from agentbench_report.statistics import Interval, mean_of_means, wilson

REPEATED = (
    "attempts at one task are not independent, so an interval over all attempts together would be too narrow; "
    "the rate is the mean of the tasks' own pass rates"
)
"""Why a run with several repeats has no interval."""


@attrs.frozen(kw_only=True)
class TaskSummary:
    """All attempts at one task; steps, seconds, tokens and US dollars are sums over them."""

    task_id: str
    passed: int = 0
    scored: int = 0
    unscored: int = 0
    """Recorded, but for a reason outside the agent's reach there is no score."""
    not_recorded: int = 0
    reasons: Mapping[str, int]
    """Failure reasons of the attempts that did not pass, scored or not, with their counts."""
    steps: int = 0
    duration_sec: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


@attrs.frozen(kw_only=True)
class ReasonCount:
    """How often attempts ended for one reason. ``scored`` ones count as fails, the others are missing."""

    reason: str
    scored: bool
    attempts: int


@attrs.frozen(kw_only=True)
class RunSummary:
    """One run. Rates are between 0 and 1; ``None`` when nothing was scored."""

    run_id: str
    suite: str
    variant: str
    agent: str
    harness: str
    repeats: int
    planned: int
    recorded: int
    scored: int
    passed: int
    failed: int
    unscored: int
    not_recorded: int
    replayed: int
    """Recorded attempts whose model answers were played back."""
    pass_rate: float | None
    interval: Interval | None
    interval_note: str
    """Why there is no interval; empty when there is one."""
    pass_rate_if_missing_fail: float | None
    """Over everything planned, if each attempt without a score had failed."""
    pass_rate_if_missing_pass: float | None
    reasons: tuple[ReasonCount, ...]
    tasks: tuple[TaskSummary, ...]


def summarise(manifest: RunManifest, records: Iterable[AttemptRecord]) -> RunSummary:
    """Count a run. Records are read once, and only counts are kept."""
    counts = {task.id: _Counts() for task in manifest.tasks}
    reasons: Counter[tuple[str, bool]] = Counter()
    replayed = 0
    for record in records:
        counts.setdefault(record.task_id, _Counts()).add(record)
        replayed += record.replayed
        if record.result.failure_reason is not None:
            reasons[str(record.result.failure_reason), record.scored] += 1
    tasks = tuple(counts[task].summary(task, manifest.repeats) for task in sorted(counts))
    scored, passed = sum(task.scored for task in tasks), sum(task.passed for task in tasks)
    unscored, not_recorded = sum(task.unscored for task in tasks), sum(task.not_recorded for task in tasks)
    repeated = manifest.repeats > 1 or any(task.scored > 1 for task in tasks)
    independent = scored > 0 and not repeated
    missing = [(task, task.scored + task.unscored + task.not_recorded) for task in tasks]
    return RunSummary(
        run_id=manifest.run_id,
        suite=manifest.suite,
        variant=manifest.variant,
        agent=manifest.agent,
        harness=manifest.harness.version,
        repeats=manifest.repeats,
        planned=scored + unscored + not_recorded,
        recorded=scored + unscored,
        scored=scored,
        passed=passed,
        failed=scored - passed,
        unscored=unscored,
        not_recorded=not_recorded,
        replayed=replayed,
        pass_rate=mean_of_means((task.passed, task.scored) for task in tasks),
        interval=wilson(passed, scored) if independent else None,
        interval_note="" if independent else REPEATED if scored else "no attempt was scored",
        pass_rate_if_missing_fail=mean_of_means((task.passed, every) for task, every in missing),
        pass_rate_if_missing_pass=mean_of_means((task.passed + every - task.scored, every) for task, every in missing),
        reasons=tuple(
            ReasonCount(reason=reason, scored=was_scored, attempts=attempts)
            for (reason, was_scored), attempts in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        ),
        tasks=tasks,
    )


class _Counts:
    """What is kept of a task while records stream by."""

    def __init__(self) -> None:
        self.passed = self.scored = self.unscored = self.steps = self.tokens = 0
        self.durations: list[float] = []
        self.costs: list[float] = []
        self.reasons: Counter[str] = Counter()

    def add(self, record: AttemptRecord) -> None:
        self.scored += record.scored
        self.unscored += not record.scored
        self.passed += record.scored and record.result.passed
        if record.result.failure_reason is not None:
            self.reasons[str(record.result.failure_reason)] += 1
        self.steps += record.usage.steps
        self.tokens += record.usage.prompt_tokens + record.usage.completion_tokens
        self.durations.append(record.duration_sec)
        self.costs.append(record.usage.cost_usd)

    def summary(self, task_id: str, repeats: int) -> TaskSummary:
        return TaskSummary(
            task_id=task_id,
            passed=self.passed,
            scored=self.scored,
            unscored=self.unscored,
            not_recorded=max(0, repeats - self.scored - self.unscored),
            reasons=dict(sorted(self.reasons.items())),
            steps=self.steps,
            duration_sec=math.fsum(self.durations),
            tokens=self.tokens,
            cost_usd=math.fsum(self.costs),
        )
