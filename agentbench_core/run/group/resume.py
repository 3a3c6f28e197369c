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
from agentbench_core.run.attempt.record import AttemptResult, local_time, make_record
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

_STOPPED = "the harness stopped before this attempt had ended"
_BILLED = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


@attrs.frozen(kw_only=True)
class Remaining:
    """The rest of a run: the attempts to make, and the number of recorded ones."""

    plans: tuple[AttemptPlan, ...]
    recorded: int


def resume(run: RunDirectory, store: Store, plans: Sequence[AttemptPlan], *, allow_changes: bool) -> Remaining:
    """The remaining attempts of the plan; unless ``allow_changes``, bound to the environments of the run.

    An attempt that ended with a crash of the harness is recorded as interrupted. A retried attempt supersedes the
    earlier record and archives its evidence.
    """
    by_place = {(plan.task.spec.id, plan.repeat): plan for plan in plans}
    for dead in _dead(run):
        plan = by_place.get((dead.task_id, dead.repeat))
        if plan is not None:
            store.record(dead.record(plan, run.manifest, store), _STOPPED)
    last = {(record.task_id, record.repeat): record for record in run.records()}
    environments = {record.task_id: record.sandbox.environment_digest for record in last.values() if record.scored}
    rest = []
    for place, planned in by_place.items():
        record = last.get(place)
        plan = planned if allow_changes else attrs.evolve(planned, environment_digest=environments.get(place[0]))
        if record is None:
            store.archive_attempt(*place, plan.attempt_id)  # of an attempt with damaged events
            rest.append(plan)
        elif record.outcome in RETRIED_OUTCOMES:
            store.archive_attempt(*place, record.attempt_id)
            rest.append(attrs.evolve(plan, supersedes=record.attempt_id))
    return Remaining(plans=tuple(rest), recorded=len(by_place) - len(rest))


@attrs.define(kw_only=True)
class _OrphanedAttempt:
    """An attempt that has started and has no record, reconstructed from its events."""

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
        """Its record, with the facts of the run at that time."""
        plan = attrs.evolve(plan, attempt_id=self.attempt_id, supersedes=self.supersedes)
        directory = store.directory / task_directory(self.task_id, self.repeat)
        result = AttemptResult(outcome=Outcome.INTERRUPTED, problem=_STOPPED)
        began, last = map(datetime.datetime.fromisoformat, (self.began, self.last))
        record = attrs.evolve(
            make_record(plan, result, directory),
            timestamps=Timestamps(started_at=local_time(began), ended_at=local_time(last)),
            duration_sec=max(0.0, (last - began).total_seconds()),  # its monotonic clock is gone
            usage=AttemptUsage(**self.used),
            task_digest=next((task.digest for task in manifest.tasks if task.id == self.task_id), ""),
        )
        if record.variant_digest != manifest.variant_digest:
            record = attrs.evolve(record, variant_digest=manifest.variant_digest, agent=manifest.agent)
        return record


def _dead(run: RunDirectory) -> Sequence[_OrphanedAttempt]:
    begun: dict[str, _OrphanedAttempt] = {}
    for _, value in journal.lines(run.directory / EVENTS, sealed=True):
        attempt = value["attempt_id"]
        if value["type"] == event_type(TaskStarted):
            begun[attempt] = _OrphanedAttempt(
                attempt_id=attempt,
                task_id=value["task_id"],
                repeat=value["repeat"],
                supersedes=value["supersedes"],
                began=value["at"],
                last=value["at"],
            )
        elif value["type"] == event_type(TaskFinished):
            begun.pop(attempt, None)
        elif attempt in begun:
            begun[attempt].count(value)
    return list(begun.values())
