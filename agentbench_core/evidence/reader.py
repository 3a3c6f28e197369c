"""Read run directories back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.converter import load
from agentbench_core.errors import InputError
from agentbench_core.evidence import layout
from agentbench_core.values.events import EVENT_CLASSES, Entry, TaskFinished
from agentbench_core.values.record import SCHEMA, AttemptRecord, RunManifest


@attrs.frozen
class RunDirectory:
    """A run directory, for reading. Implements the contract ``RunView``."""

    directory: Path
    manifest: RunManifest

    def records(self) -> Iterator[AttemptRecord]:
        """The last record of each (task, variant, repeat), in the order of the file."""
        last: dict[tuple[str, str, int], AttemptRecord] = {}
        for where, value in _lines(self.directory / layout.ATTEMPTS):
            record = load(_known_schema(value, where), AttemptRecord, where=where)
            key = (record.task_id, record.variant, record.repeat)
            last.pop(key, None)
            last[key] = record
        yield from last.values()

    def events(self) -> Iterator[Entry]:
        """Every event; types that this version does not know are left out."""
        for where, value in _lines(self.directory / layout.EVENTS):
            envelope = {key: value.pop(key, None) for key in ("seq", "at", "attempt_id")}
            cls = EVENT_CLASSES.get(value.pop("type", ""))
            if cls is not None:
                yield Entry(**envelope, event=load(value, cls, where=where))

    def explanations(self) -> Mapping[str, str]:
        """Why attempts ended as they did, in words, by attempt id."""
        ends = (entry.event for entry in self.events() if isinstance(entry.event, TaskFinished))
        return {end.record.attempt_id: end.explanation for end in ends}


def open_run(directory: Path) -> RunDirectory:
    """A run directory by its path. Raises InputError when it is none, or one of a newer version."""
    path = directory / layout.MANIFEST
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        raise InputError(
            f"{directory} is no run directory: it has no {layout.MANIFEST}", remedy="See: agentbench runs list"
        ) from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    manifest = load(_known_schema(value, str(path)), RunManifest, where=str(path))
    return RunDirectory(directory, manifest)


def find_runs(out: Path) -> Sequence[Path]:
    """Every run directory below ``out``, oldest first by name."""
    return sorted(path.parent for path in out.glob(f"*/{layout.MANIFEST}"))


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each whole line of a JSONL file with its place; a torn last line is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            where = f"{path}:{number}"
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise InputError(f"{where} is damaged: {error}") from None


def _known_schema(value: Any, where: str) -> Any:
    version = value.get("schema") if isinstance(value, dict) else None
    if version != SCHEMA:
        raise InputError(
            f"{where} has schema version {version!r}; this agentbench reads version {SCHEMA}",
            remedy="Read it with the agentbench that wrote it, or a newer one.",
        )
    return value
