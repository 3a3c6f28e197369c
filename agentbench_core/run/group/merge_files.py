"""Write a merged run: the evidence, events and records of the runs of its shards."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import IO

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
    event_type,
)
from agentbench_core.workspace.copying import fork

_OF_THE_RUN = frozenset(map(event_type, (ManifestWritten, RunStarted, RunResumed, ShardMerged, RunFinished)))
"""Events of a whole run, which the merged run has itself."""


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
    tags: defaultdict[str, set[str]] = defaultdict(set)
    for part in merge.parts:
        for key, value in read_tags(part.run.directory).items():
            tags[key].add(value)
    write_tags(directory, {key: values.pop() for key, values in tags.items() if len(values) == 1})
    journal.checkpoint()
    with (directory / layout.EVENTS).open("wb") as events, (directory / layout.ATTEMPTS).open("wb") as attempts:
        _Writer(merge, events, attempts).write()
        for file in (events, attempts):
            file.flush()
            os.fsync(file.fileno())
    journal.replace(directory / layout.MANIFEST, journal.json_line(dump(merge.manifest), indent=2))


def _changed(part: ShardRun) -> InputError:
    return InputError(f"{part.run.directory} has changed while it was merged", remedy="Merge it again.")


class _Writer:
    """Writes the events and records of a merged run. Lines keep their times, and get new numbers and run ids."""

    def __init__(self, merge: Merge, events: IO[bytes], attempts: IO[bytes]) -> None:
        self._merge = merge
        self._events = events
        self._attempts = attempts
        self._seq = 0

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
        reason = f"attempts that were not run: {merge.missing}" if merge.missing else ""
        status = "stopped" if merge.missing else "completed"
        self._emit(RunFinished(status=status, attempts=merge.recorded, reason=reason))

    def _copy(self, part: ShardRun) -> list[str]:
        """Copy the events and records of a shard, and return the ids of the recorded attempts."""
        recorded = []
        records = {record.attempt_id: record for record in part.attempts}
        for _, event in journal.lines(part.run.directory / layout.EVENTS, sealed=True):
            attempt, type_, at = event.pop("attempt_id", None), str(event.pop("type", "")), str(event.pop("at", ""))
            event.pop("seq", None)
            if type_ in _OF_THE_RUN:
                continue
            if type_ == event_type(TaskFinished):
                if attempt not in records:
                    raise _changed(part)
                record = attrs.evolve(records[attempt], run_id=self._merge.manifest.run_id)
                event["record"] = dump(record)
                self._attempts.write(journal.json_line(event["record"]))
                recorded.append(attempt)
            self._line(type_, attempt, at, journal.json_line(event)[:-1])
        return recorded

    def _emit(self, event: ManifestWritten | RunStarted | ShardMerged | RunFinished) -> None:
        self._line(event_type(type(event)), None, "", journal.json_line(dump(event))[:-1])

    def _line(self, type_: str, attempt: str | None, at: str, fields: bytes) -> None:
        self._seq += 1
        self._events.write(journal.event_line(self._seq, attempt, type_, fields, at))
