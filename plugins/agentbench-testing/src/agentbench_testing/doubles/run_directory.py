"""Run directories created without a run, and a reporter that records its input."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import RunView
from agentbench_core.converter import dump, load
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.values.events import (
    Event,
    LLMRequest,
    LLMResponse,
    ManifestWritten,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    event_type,
)
from agentbench_core.values.failures import UNSCORED, FailureReason, Outcome
from agentbench_core.values.record import SCHEMA, AttemptRecord, AttemptUsage, RunManifest

Ending = bool | FailureReason | None
"""``True``: passed; ``False``: failed with ``TESTS_FAILED``; a reason: ended with it; ``None``: without a record."""
_OUTCOMES = {reason: outcome for outcome, reason in UNSCORED.items()} | {
    FailureReason.TIMEOUT: Outcome.TIMED_OUT,
    FailureReason.AGENT_GAVE_UP: Outcome.GAVE_UP,
    FailureReason.AGENT_ERROR: Outcome.AGENT_ERROR,
    FailureReason.TOOL_ERROR: Outcome.TOOL_ERROR,
}
_WHEN = "2026-01-02T03:04:05+00:00"
_AT = "2026-01-02T03:04:05.000Z"
"""The time ``_WHEN`` in the format of events."""


def write_run(
    directory: Path,
    endings: Mapping[str, Ending | Sequence[Ending]],
    *,
    run: Mapping[str, Any] = {},
    digests: Mapping[str, str] = {},
    quarantined: Mapping[str, str] = {},
    dates: Mapping[str, str] = {},
    tried_before: Mapping[str, FailureReason] = {},
    record: Callable[[AttemptRecord], AttemptRecord] = lambda record: record,
    events: Callable[[AttemptRecord], Iterable[Event]] | None = None,
    files: Callable[[AttemptRecord], Mapping[str, str | bytes]] = lambda record: {},
) -> RunDirectory:
    """Write a run directory in the harness's format, and open it.

    Args:
        directory: the path of the run directory, which is created. The run id is ``run-`` and the directory's name.
        endings: how the attempts ended, by task id; a sequence contains one value for each repeat.
        run: fields of ``run.json`` to override.
        digests: digests of tasks, by id; the default is derived from the id.
        quarantined: reasons for which tasks are quarantined, by id.
        dates: dates of tasks, by id.
        tried_before: failure reasons of first attempts that were retried, by task id; these attempts have no usage.
        record: changes a record before it is written.
        events: events of an attempt, between its start and its end; by default one model call.
        files: files in the directory of an attempt, by path.
    """
    repeated = {task: _each(one) for task, one in endings.items()}
    tasks = {task: digests.get(task, f"sha256:{hashlib.sha256(_bytes(task)).hexdigest()}") for task in repeated}
    manifest = _manifest(directory.name, tasks, max(map(len, repeated.values()), default=1), run, quarantined, dates)
    attempts = []
    for task, each in repeated.items():
        made = [_record(manifest, task, tasks[task], n, end) for n, end in enumerate(each, start=1) if end is not None]
        if task in tried_before:
            first = _record(manifest, task, tasks[task], 1, tried_before[task])
            first = attrs.evolve(first, attempt_id=f"{first.attempt_id}-before", usage=AttemptUsage())
            attempts.append(record(first))
            made[0] = attrs.evolve(made[0], supersedes=attempts[-1].attempt_id)
        attempts += map(record, made)
    directory.mkdir(parents=True)
    (directory / layout.MANIFEST).write_bytes(journal.json_line(dump(manifest), indent=2))
    with (directory / layout.ATTEMPTS).open("wb") as file:
        file.writelines(journal.json_line(dump(one)) for one in attempts)
    with (directory / layout.EVENTS).open("wb") as file:
        file.writelines(_event_lines(manifest, attempts, events or _one_call))
    for one in attempts:
        for name, data in files(one).items():
            path = directory / layout.task_directory(one.task_id, one.repeat) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_bytes(data))
    return open_run(directory)


@attrs.frozen
class Given:
    """The input of one report."""

    run: RunView
    """Reads the run directory on demand, and therefore only works while the directory exists."""
    into: Path  #: directory for the files
    records: tuple[AttemptRecord, ...]
    """The records at the time of the report."""


class RecordingReporter:
    """Implements ``Reporter``: records its inputs, and writes nothing."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        """Each requested report, in order."""

    @property
    def records(self) -> Sequence[AttemptRecord]:
        """The records of the last report; fails if there was none."""
        assert self.given, "no report was requested"
        return self.given[-1].records

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """See the contract."""
        self.given.append(Given(run, into, tuple(run.records())))
        return ()


def _each(endings: Ending | Sequence[Ending]) -> Sequence[Ending]:
    return [endings] if endings is None or isinstance(endings, (bool, FailureReason)) else endings


def _manifest(
    name: str,
    tasks: Mapping[str, str],
    repeats: int,
    more: Mapping[str, Any],
    quarantined: Mapping[str, str],
    dates: Mapping[str, str],
) -> RunManifest:
    data = {
        "schema": SCHEMA,
        "run_id": f"run-{name}",
        "group_id": f"group-{name}",
        "created_at": _WHEN,
        "harness": {"version": "0.1.0", "git_sha": ""},
        "argv": ["agentbench", "run"],
        "suite": "custom-dev",
        "variant": "baseline",
        "variant_digest": "sha256:variant",
        "agent": "baseline",
        "repeats": repeats,
        "config": {},
        "tasks": [
            {
                "id": task,
                "digest": digest,
                "path": f"tasks/{task}",
                "commit": "0" * 40,
                "quarantined": quarantined.get(task, ""),
                "date": dates.get(task, ""),
            }
            for task, digest in tasks.items()
        ],
        "plugins": [],
        "platform": {},
    }
    return load(data | dict(more), RunManifest, where="write_run")


def _record(manifest: RunManifest, task: str, digest: str, repeat: int, ending: bool | FailureReason) -> AttemptRecord:
    reason = None if ending is True else FailureReason.TESTS_FAILED if ending is False else ending
    outcome = Outcome.COMPLETED if reason is None else _OUTCOMES.get(reason, Outcome.COMPLETED)
    data = {
        "schema": SCHEMA,
        "run_id": manifest.run_id,
        "attempt_id": f"{manifest.run_id}-{task}-{repeat}",
        "task_id": task,
        "task_digest": digest,
        "suite": manifest.suite,
        "variant": manifest.variant,
        "variant_digest": manifest.variant_digest,
        "agent": manifest.agent,
        "repeat": repeat,
        "timestamps": {"started_at": _WHEN, "ended_at": _WHEN},
        "duration_sec": 1.5,
        "baseline_validation": {"attempted": True, "failed_as_expected": True, "exit_code": 1},
        "result": {
            "passed": reason is None,
            "exit_code": 0 if reason is None else 1,
            "failure_reason": reason and reason.value,
        },
        "outcome": outcome.value,
        "scored": outcome not in UNSCORED,
        "sandbox": {"name": "local", "isolated": False, "network": "none", "environment_digest": f"sha256:env-{task}"},
        "usage": {"steps": 3, "llm_calls": 1, "prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.01},
        "limits": {"timeout_sec": 900.0, "tool_timeout_sec": 120.0, "max_steps": 30},
        "artifact_paths": {"task_dir": layout.task_directory(task, repeat)},
    }
    return load(data, AttemptRecord, where="write_run")


def _event_lines(
    manifest: RunManifest, attempts: Sequence[AttemptRecord], events: Callable[[AttemptRecord], Iterable[Event]]
) -> Iterator[bytes]:
    number = itertools.count(1)

    def line(event: Event, attempt_id: str | None = None) -> bytes:
        return journal.event_line(
            next(number), attempt_id, event_type(type(event)), journal.json_line(dump(event))[:-1], _AT
        )

    yield line(ManifestWritten(manifest=manifest))
    yield line(RunStarted(run_id=manifest.run_id, attempts=manifest.planned))
    for attempt in attempts:
        yield line(TaskStarted(task_id=attempt.task_id, repeat=attempt.repeat), attempt.attempt_id)
        yield from (line(event, attempt.attempt_id) for event in events(attempt))
        yield line(TaskFinished(record=attempt, explanation=""), attempt.attempt_id)
    yield line(RunFinished(status="completed", attempts=len(attempts)))


def _one_call(record: AttemptRecord) -> Iterator[Event]:
    usage = record.usage
    if not usage.llm_calls:
        return
    yield LLMRequest(call=1, messages=2, reserved_usd=usage.cost_usd)
    yield LLMResponse(
        call=1,
        finish="stop",
        model="scripted",
        served_by="example",
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
        duration_sec=record.duration_sec,
    )


def _bytes(data: str | bytes) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
