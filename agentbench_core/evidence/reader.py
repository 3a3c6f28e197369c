"""Read run directories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.converter import load
from agentbench_core.errors import InputError
from agentbench_core.evidence import journal, layout, verification
from agentbench_core.evidence.recovery import manifests
from agentbench_core.values.events import EVENT_CLASSES, EventEntry, LLMRequest, TaskFinished, event_type
from agentbench_core.values.messages import Completion, ConversationEntry, Request, requests
from agentbench_core.values.record import SCHEMA, AttemptRecord, RunManifest
from agentbench_core.values.row import AttemptRow


@attrs.frozen
class RunDirectory:
    """A run directory, for reading. Implements the ``RunView`` contract."""

    directory: Path
    manifest: RunManifest

    def records(self) -> Iterator[AttemptRecord]:
        """The last record of each (task, variant, repeat) that is not superseded, in the order of the file.

        Each is compared with the event that contains it. Raises InputError if one differs; a missing record is detected
        only at the end. Records of an unfinished run that are only in its events come last.
        """
        return (_record(line) for line, counts in verification.current_lines(self.directory) if counts)

    def rows(self) -> Iterator[AttemptRow]:
        """The records of :meth:`records`, with only the fields that reports aggregate: fast, with little memory."""
        return (row for row, counts in self.all_rows() if counts)

    def all_rows(self) -> Iterator[tuple[AttemptRow, bool]]:
        """Every record as a row, and whether it is a result: records of retried attempts are not."""
        read = verification.decoder(AttemptRow)
        for line, counts in verification.current_lines(self.directory):
            row = read(line)
            _check_schema(row.schema, line[0])
            yield row, counts

    def every_record(self) -> Iterator[AttemptRecord]:
        """Every record, including superseded ones."""
        return map(_record, verification.checked(self.directory))

    def events(self) -> Iterator[EventEntry]:
        """Every event, except types unknown to this version."""
        for where, line in journal.raw_lines(self.directory / layout.EVENTS):
            entry = event_entry(line, where)
            if entry is not None:
                yield entry

    def explanations(self) -> Mapping[str, str]:
        """Explanations of outcomes by attempt id."""
        return {str(end.get("attempt_id")): str(end.get("explanation", "")) for end in self._ends()}

    def answers(self, task_id: str, repeat: int) -> Iterator[tuple[str, Request, Completion]]:
        """Each answered model call of the last attempt at a task, in order: agent, request, response."""
        return requests(self.conversation(task_id, repeat))

    def conversation(self, task_id: str, repeat: int) -> Iterator[ConversationEntry]:
        """The calls of :meth:`answers` as recorded, each with only its new parts."""
        for where, value in self._lines_of(task_id, repeat, layout.CONVERSATION):
            yield load(value, ConversationEntry, where=where)

    def tool_calls(self, task_id: str, repeat: int) -> Iterator[Mapping[str, Any]]:
        """Each tool call of the last attempt at a task, in order, as recorded."""
        for _, value in self._lines_of(task_id, repeat, layout.TOOL_CALLS):
            yield value

    def file(self, task_id: str, repeat: int, name: str, at_most: int = 1 << 20) -> bytes | None:
        """A file of the last attempt at a task, by its path in the attempt's directory; ``None`` if it does not exist.

        Returns only the beginning and the end of a file with more than ``at_most`` bytes. Links are followed only
        inside the run directory, which may come from an untrusted source.
        """
        path = self._path(task_id, repeat, name)
        if path is None:
            return None
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= at_most:
                return file.read()
            head = file.read(at_most // 2)
            file.seek(size - at_most // 2)
            return head + f"\n[... {size - at_most // 2 * 2} bytes left out ...]\n".encode() + file.read()

    def _lines_of(self, task_id: str, repeat: int, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        path = self._path(task_id, repeat, name)
        return iter(()) if path is None else journal.lines(path, sealed=False)

    def _path(self, task_id: str, repeat: int, name: str) -> Path | None:
        path = self.directory / layout.task_directory(task_id, repeat) / name
        try:
            inside = path.is_file() and path.resolve().is_relative_to(self.directory.resolve())
        except OSError:  # an invalid file name
            return None
        return path if inside else None

    def spent_usd(self) -> float:
        """The cost of models so far: all exchanges sent or about to be sent, even in superseded attempts.

        If the cost of an exchange is unknown, its reservation counts.
        """
        costs: dict[tuple[str, int, int], float] = {}
        for where, value in journal.lines(self.directory / layout.EVENTS, sealed=True, type_="llm_"):
            try:
                key = (value["attempt_id"], value["call"], value.get("exchange", 1))
                if value["type"] == event_type(LLMRequest):
                    costs[key] = float(value["reserved_usd"])
                elif value["cost_usd"] is not None:
                    costs[key] = float(value["cost_usd"])
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise journal.damaged(where, f"a field is missing or invalid: {error}") from None
        return sum(costs.values())

    def unverified_records(self) -> int:
        """Number of records that no event of the run confirms; they may have been edited."""
        return verification.without_evidence(self.directory)

    def status(self) -> str:
        """The status of ``run_finished``, or ``unfinished`` after a crash and during the run."""
        return verification.status(self.directory)

    def _ends(self) -> Iterator[dict[str, Any]]:
        for _, value in journal.lines(self.directory / layout.EVENTS, sealed=True, type_=event_type(TaskFinished)):
            yield value


def event_fields(line: bytes, where: str) -> dict[str, Any]:
    """The fields of a line of ``events.jsonl``, as plain data. Raises InputError if it is damaged."""
    try:
        return journal.parsed(line, sealed=True)
    except ValueError as error:
        raise journal.damaged(where, error) from None


def event_entry(line: bytes, where: str) -> EventEntry | None:
    """A line of ``events.jsonl``; ``None`` for a type that this version does not know.

    ``where`` is its position, for messages. Raises InputError if it is damaged.
    """
    value = event_fields(line, where)
    envelope = {key: value.pop(key, None) for key in ("seq", "at", "attempt_id")}
    cls = EVENT_CLASSES.get(value.pop("type", ""))
    return None if cls is None else EventEntry(**envelope, event=load(value, cls, where=where))


def open_run(directory: Path) -> RunDirectory:
    """Open a run directory by its path, as a :class:`RunView`.

    ``run.json`` is compared with its copy in the events, except in older runs, whose events have no copy.
    Raises InputError if it is not a run directory, has another schema version, or ``run.json`` is damaged or edited.
    """
    value = checked_manifest(directory)
    return RunDirectory(directory, load(value, RunManifest, where=str(directory / layout.MANIFEST)))


def checked_manifest(directory: Path) -> Any:
    """The content of ``run.json`` as plain data, compared with the events. Raises InputError like :func:`open_run`."""
    path, shown = directory / layout.MANIFEST, None
    try:
        if not path.is_file():  # reading a named pipe would block forever
            raise FileNotFoundError(path)
        value = json.loads(path.read_bytes())
    except OSError:
        raise InputError(
            f"{directory} is not a run directory ({layout.MANIFEST} not found)", remedy="See: agentbench runs list"
        ) from None
    except (ValueError, RecursionError) as error:
        if next(manifests(directory), None):
            raise journal.damaged(str(path), error) from None
        raise InputError(
            f"{path} is damaged: {error}", remedy="Restore it from a backup. Without it, the run cannot be read."
        ) from None
    _known_schema(value, str(path))
    for shown in manifests(directory):
        if shown == value:
            break
    else:
        if shown is not None:
            other = sorted(key for key in {*shown, *value} if shown.get(key) != value.get(key))
            raise journal.damaged(str(path), f"it differs from {layout.EVENTS} in {', '.join(other)}")
    return value


def find_runs(out: Path) -> Sequence[Path]:
    """Every run directory in ``out``, sorted by name, which begins with the local time of its start.

    Hidden directories are left out: they are being unpacked or deleted. Raises InputError if ``out`` cannot be read;
    one that does not exist has no runs.
    """
    try:
        return sorted(path.parent for path in out.glob(f"[!.]*/{layout.MANIFEST}"))
    except OSError as error:
        raise InputError(f"{out} cannot be read: {error.strerror}") from None


def _record(line: verification.Line) -> AttemptRecord:
    where, data = line
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise journal.damaged(where, error) from None
    return load(_known_schema(value, where), AttemptRecord, where=where)


def _known_schema(value: Any, where: str) -> Any:
    _check_schema(value.get("schema") if isinstance(value, dict) else None, where)
    return value


def _check_schema(version: object, where: str) -> None:
    if version != SCHEMA:
        raise InputError(
            f"{where} has schema version {version!r}; this agentbench reads version {SCHEMA}",
            remedy="Use the version of agentbench that wrote it, or a newer one.",
        )
