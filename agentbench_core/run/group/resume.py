"""Resume a run where it stopped, without losing or repeating attempts."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.evidence import journal
from agentbench_core.evidence.layout import EVENTS, task_directory
from agentbench_core.evidence.reader import RunDirectory
from agentbench_core.evidence.store import Store
from agentbench_core.run.attempt.record import Conclusion, local_time, make_record
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.values.events import (
    LLMFailed,
    LLMRequest,
    LLMResponse,
    TaskFinished,
    TaskStarted,
    ToolCallStarted,
    event_type,
)
from agentbench_core.values.failures import Outcome
from agentbench_core.values.record import AttemptRecord, AttemptUsage, RunManifest, Timestamps

RETRIED_OUTCOMES = frozenset({Outcome.INTERRUPTED, Outcome.SANDBOX_ERROR, Outcome.LLM_ERROR, Outcome.SETUP_FAILED})
"""Outcomes that say nothing about the agent and may differ next time. An invalid task stays invalid."""

_STOPPED = "the harness stopped before this attempt ended"
_BILLED = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


@attrs.frozen(kw_only=True)
class Remaining:
    """The rest of a run: the attempts to run, and the recorded attempts that need no retry."""

    plans: tuple[AttemptPlan, ...]
    recorded: tuple[AttemptRecord, ...]


def resume(run: RunDirectory, store: Store, plans: Sequence[AttemptPlan], *, allow_changes: bool) -> Remaining:
    """Return the remaining attempts. Unless ``allow_changes``, they require the environments of earlier attempts.

    An attempt that was cut short by a crash of the harness is recorded as interrupted. A retried attempt supersedes
    the earlier record, and the earlier evidence is archived.
    """
    by_key = {(plan.task.spec.id, plan.repeat): plan for plan in plans}
    for orphan in _orphans(run):
        plan = by_key.get((orphan.task_id, orphan.repeat))
        if plan is not None:
            store.record(orphan.record(plan, run.manifest, store), _STOPPED)
    last = {(record.task_id, record.repeat): record for record in run.records()}
    environments = {record.task_id: record.sandbox.environment_digest for record in last.values() if record.scored}
    remaining, kept = [], []
    for key, planned in by_key.items():
        record = last.get(key)
        plan = planned if allow_changes else attrs.evolve(planned, environment_digest=environments.get(key[0]))
        if record is None:
            store.archive_attempt(*key, plan.attempt_id)  # left by an attempt whose events are damaged
            remaining.append(plan)
        elif record.outcome in RETRIED_OUTCOMES:
            store.archive_attempt(*key, record.attempt_id)
            remaining.append(attrs.evolve(plan, supersedes=record.attempt_id))
        else:
            kept.append(record)
    return Remaining(plans=tuple(remaining), recorded=tuple(kept))


@attrs.define(kw_only=True)
class _OrphanedAttempt:
    """An attempt that started but has no record, reconstructed from its events."""

    attempt_id: str
    task_id: str
    repeat: int
    supersedes: str | None
    began: str
    last: str
    used: Counter[str] = attrs.field(factory=Counter)

    def count(self, value: Mapping[str, Any]) -> None:
        """Add one event."""
        self.last = value["at"]
        self.used["steps"] += value["type"] == event_type(ToolCallStarted)
        self.used["llm_calls"] += value["type"] == event_type(LLMRequest) and value.get("exchange", 1) == 1
        if value["type"] in (event_type(LLMResponse), event_type(LLMFailed)):
            self.used.update({name: value[name] or 0 for name in _BILLED})

    def record(self, plan: AttemptPlan, manifest: RunManifest, store: Store) -> AttemptRecord:
        """The attempt's record, with the facts of the run at that time."""
        plan = attrs.evolve(plan, attempt_id=self.attempt_id, supersedes=self.supersedes)
        directory = store.directory / task_directory(self.task_id, self.repeat)
        began, last = map(datetime.datetime.fromisoformat, (self.began, self.last))
        end = Conclusion(
            outcome=Outcome.INTERRUPTED,
            explanation=_STOPPED,
            started_at=local_time(began),
            duration_sec=max(0.0, (last - began).total_seconds()),  # the monotonic clock of that process is unavailable
        )
        record = attrs.evolve(
            make_record(plan, end, directory),
            timestamps=Timestamps(started_at=end.started_at, ended_at=local_time(last)),
            usage=AttemptUsage(**self.used),
            task_digest=next((task.digest for task in manifest.tasks if task.id == self.task_id), ""),
        )
        if record.variant_digest != manifest.variant_digest:
            record = attrs.evolve(record, variant_digest=manifest.variant_digest, agent=manifest.agent)
        return record


def _orphans(run: RunDirectory) -> Sequence[_OrphanedAttempt]:
    running: dict[str, _OrphanedAttempt] = {}
    for _, value in journal.lines(run.directory / EVENTS, sealed=True):
        attempt = value["attempt_id"]
        if value["type"] == event_type(TaskStarted):
            running[attempt] = _OrphanedAttempt(
                attempt_id=attempt,
                task_id=value["task_id"],
                repeat=value["repeat"],
                supersedes=value["supersedes"],
                began=value["at"],
                last=value["at"],
            )
        elif value["type"] == event_type(TaskFinished):
            running.pop(attempt, None)
        elif attempt in running:
            running[attempt].count(value)
    return list(running.values())
