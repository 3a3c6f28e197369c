"""Write a merged run: the evidence, events and records of the runs of its shards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import InputError
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.tags import read_tags, write_tags
from agentbench_core.run.group.merging import Merge, ShardRun
from agentbench_core.values.events import (
    ManifestWritten,
    RunFinished,
    RunResumed,
    RunStarted,
    ShardMerged,
    TaskFinished,
    TaskStarted,
    event_type,
)
from agentbench_core.workspace.copying import fork

_OF_THE_RUN = frozenset(map(event_type, (ManifestWritten, RunStarted, RunResumed, ShardMerged, RunFinished)))
"""Events about a whole run; the merged run has its own."""


def write_merge(merge: Merge, directory: Path) -> None:
    """Write the merged run to a new directory, which must not be used before this returns.

    Raises InputError if a run has changed in the meantime, and OSError if something cannot be copied.
    """
    directory.mkdir()
    for part in merge.parts:
        manifest = part.run.manifest
        planned = [(task.id, repeat) for task in manifest.tasks for repeat in manifest.planned_repeats(task.id)]
        for name in (
            *(layout.task_directory(*attempt) for attempt in planned),
            *(layout.superseded_directory(record.attempt_id) for record in part.attempts),
        ):
            source = part.run.directory / name
            if source.is_dir() and not source.is_symlink():
                (directory / name).parent.mkdir(exist_ok=True)
                journal.checkpoint()
                fork(source, directory / name)
    first, *others = [read_tags(part.run.directory) for part in merge.parts]
    tags = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    write_tags(directory, tags)
    journal.checkpoint()
    with (directory / layout.EVENTS).open("wb") as events, (directory / layout.ATTEMPTS).open("wb") as attempts:
        _Writer(merge, events, attempts).write()
        for file in (events, attempts):
            file.flush()
            os.fsync(file.fileno())
    for part in merge.parts:  # a resumed run moves the files that were copied
        if part.changed:
            raise _changed(part)
    journal.replace(directory / layout.MANIFEST, journal.json_line(dump(merge.manifest), indent=2))


def _changed(part: ShardRun) -> InputError:
    return InputError(f"{part.run.directory} changed while it was being merged", remedy="Merge it again.")


def _invalid(where: str, why: object) -> InputError:
    return InputError(f"{where} cannot be merged: {why}", remedy="Copy the run again, or run its shard again.")


class _Writer:
    """Writes the events and records of a merged run. Lines keep their times, and get new numbers and run ids."""

    def __init__(self, merge: Merge, events: IO[bytes], attempts: IO[bytes]) -> None:
        self._merge = merge
        self._events = events
        self._attempts = attempts
        self._seq = 0
        self._owners = {record.attempt_id: part for part in merge.parts for record in part.attempts}

    def write(self) -> None:
        """Write everything."""
        merge = self._merge
        self._emit(ManifestWritten(manifest=merge.manifest))
        self._emit(RunStarted(run_id=merge.manifest.run_id, attempts=merge.manifest.planned))
        for part, run in zip(merge.parts, merge.manifest.merged, strict=True):
            self._emit(ShardMerged(run=run))
            recorded = self._copy(part)
            if sorted(recorded) != sorted(record.attempt_id for record in part.attempts):
                raise _changed(part)
        lacking = f"{merge.missing} attempt was" if merge.missing == 1 else f"{merge.missing} attempts were"
        reason = f"{lacking} not run" if merge.missing else ""
        status = "stopped" if merge.missing else "completed"
        self._emit(RunFinished(status=status, attempts=merge.recorded, reason=reason))

    def _copy(self, part: ShardRun) -> list[str]:
        """Copy the events and records of a shard, and return the ids of the recorded attempts."""
        recorded = []
        records = {record.attempt_id: record for record in part.attempts}
        for where, event in journal.lines(part.run.directory / layout.EVENTS, sealed=True):
            attempt, type_, at = event.pop("attempt_id", None), str(event.pop("type", "")), str(event.pop("at", ""))
            event.pop("seq", None)
            if type_ in _OF_THE_RUN:
                continue
            if problem := self._problem(part, type_, attempt, event):
                raise _invalid(where, problem)
            if type_ == event_type(TaskFinished):
                if attempt not in records:
                    raise _changed(part)
                record = attrs.evolve(records[attempt], run_id=self._merge.manifest.run_id)
                event["record"] = dump(record)
                self._attempts.write(journal.json_line(event["record"]))
                recorded.append(attempt)
            try:
                self._line(type_, attempt, at, journal.json_line(event)[:-1])
            except (ValueError, RecursionError) as error:
                raise _invalid(where, error) from None
        return recorded

    def _problem(self, part: ShardRun, type_: str, attempt: Any, event: Mapping[str, Any]) -> str:
        """Why an event cannot be part of the merged run, in which it could change other attempts; empty if it can."""
        if attempt is None:
            return ""
        if not isinstance(attempt, str):
            return "its attempt id is not a string"
        if self._owners.get(attempt, part) is not part:
            return f"its attempt {attempt!a} belongs to another run"
        if type_ == event_type(TaskStarted):
            task_id, repeat = event.get("task_id"), event.get("repeat")
            if not isinstance(task_id, str) or type(repeat) is not int or not part.shard.takes(task_id, repeat):
                return f"its attempt {attempt!a} does not belong to shard {part.shard}"
        return ""

    def _emit(self, event: ManifestWritten | RunStarted | ShardMerged | RunFinished) -> None:
        self._line(event_type(type(event)), None, "", journal.json_line(dump(event))[:-1])

    def _line(self, type_: str, attempt: str | None, at: str, fields: bytes) -> None:
        self._seq += 1
        self._events.write(journal.event_line(self._seq, attempt, type_, fields, at))
