"""The one writer of a run directory.

Events and records are appended by a single thread, in the order in which they were handed over. A record
counts when its line has reached the disk.
"""

from __future__ import annotations

import datetime
import json
import os
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

import attrs
import filelock

from agentbench_core.converter import dump
from agentbench_core.errors import InputError, RunStoppedError
from agentbench_core.evidence import layout
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.events import Event, TaskFinished, event_type
from agentbench_core.values.execution import Output
from agentbench_core.values.record import AttemptRecord, RunManifest


@attrs.frozen
class _Line:
    file: str
    data: bytes
    on_disk: Future[None] | None


class AttemptFiles:
    """The directory of one attempt: everything that it writes lies below. Used by that attempt's threads only."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        self.directory = directory
        self._redactor = redactor
        directory.mkdir(parents=True)

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Write one file, by its path below the directory."""
        path = self._path(name)
        path.write_bytes(self._redactor.clean(_bytes(data)))
        if executable:
            path.chmod(path.stat().st_mode | 0o111)

    def write_json(self, name: str, value: object) -> None:
        """Write one value as indented JSON."""
        self._path(name).write_bytes(_json(self._redactor.clean_value(dump(value)), indent=2))

    def append_json(self, name: str, value: object) -> None:
        """Add one line of JSON to a file."""
        with self._path(name).open("ab") as file:
            file.write(_json(self._redactor.clean_value(dump(value))))

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool = False) -> None:
        """Write both streams of a phase, shortened; with ``full`` also all that the sandbox kept of them."""
        for stream, output in (("stdout", stdout), ("stderr", stderr)):
            self.write(layout.log_path(phase, stream), layout.shorten(output.text))
            if full:
                self.write(layout.log_path(phase, f"{stream}_full"), output.data)

    def _path(self, name: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class Store:
    """A run directory that is being written. Thread-safe; close it to flush the rest."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        """Make the directory and hold it; nobody else may write there until :meth:`close`."""
        self.directory = directory
        self._redactor = redactor
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(directory / layout.LOCK)
        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            raise InputError(
                f"{directory} is being written by another agentbench", remedy="Wait for it, or stop it."
            ) from None
        self._queue: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._order = threading.Lock()
        self._seq = 0
        self._closed = False
        self._problem: OSError | None = None
        self._writer = threading.Thread(target=self._write, name="store", daemon=True)
        self._writer.start()

    def write_manifest(self, manifest: RunManifest) -> None:
        """Write ``run.json`` as a whole or not at all."""
        part = self.directory / f"{layout.MANIFEST}.part"
        part.write_bytes(_json(self._redactor.clean_value(dump(manifest)), indent=2))
        part.replace(self.directory / layout.MANIFEST)

    def emit(self, event: Event, attempt_id: str | None = None, *, durable: bool = False) -> None:
        """Append an event; with ``durable`` return only when it is on disk.

        Raises RunStoppedError once the disk refuses: nothing that cannot be recorded should go on.
        """
        on_disk: Future[None] | None = Future() if durable else None
        fields = dump(event)
        with self._order:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            envelope = {"seq": self._seq + 1, "at": now, "attempt_id": attempt_id, "type": event_type(type(event))}
            self._put(layout.EVENTS, envelope | fields, on_disk)
            self._seq += 1  # only now: what cannot be written uses up no number
        if on_disk:
            on_disk.result()

    def record(self, record: AttemptRecord, explanation: str) -> None:
        """Append an attempt's record, first as an event; returns when both are on disk."""
        self.emit(TaskFinished(record=record, explanation=explanation), record.attempt_id, durable=True)
        on_disk: Future[None] = Future()
        self._put(layout.ATTEMPTS, dump(record), on_disk)
        on_disk.result()

    def attempt_files(self, task_id: str, repeat: int) -> AttemptFiles:
        """The directory for one attempt. Raises RunStoppedError when it cannot be made."""
        try:
            return AttemptFiles(self.directory / layout.task_directory(task_id, repeat), self._redactor)
        except OSError as error:
            raise _stopped(self.directory, error) from None

    def close(self) -> None:
        """Write what is left and let go of the directory. Idempotent. Raises RunStoppedError if that fails."""
        if not self._writer.is_alive():
            return
        self._closed = True
        told = self._problem
        self._queue.put(None)
        self._writer.join()
        self._lock.release()
        if self._problem is not told:
            raise _stopped(self.directory, self._problem)

    def _put(self, file: str, value: dict[str, Any], on_disk: Future[None] | None) -> None:
        if self._problem is not None:
            raise _stopped(self.directory, self._problem)
        if self._closed:
            raise RunStoppedError(f"{self.directory} is closed: nothing more can be written there")
        self._queue.put(_Line(file, _json(self._redactor.clean_value(value)), on_disk))

    def _write(self) -> None:
        ended = False
        try:
            with (
                (self.directory / layout.EVENTS).open("ab") as events,
                (self.directory / layout.ATTEMPTS).open("ab") as attempts,
            ):
                files = {layout.EVENTS: events, layout.ATTEMPTS: attempts}
                while (line := self._queue.get()) is not None:
                    self._append(files, line)
                ended = True
        except OSError as error:  # opening or closing failed
            self._problem = self._problem or error
            while not ended and (line := self._queue.get()) is not None:
                self._append({}, line)  # whoever waits for the disk must hear of it

    def _append(self, files: Mapping[str, IO[bytes]], line: _Line) -> None:
        try:
            if self._problem is not None:
                raise self._problem
            files[line.file].write(line.data)
            if line.on_disk or self._queue.empty():
                for file in files.values():
                    file.flush()
            if line.on_disk:
                os.fsync(files[line.file].fileno())
                line.on_disk.set_result(None)
        except OSError as error:
            self._problem = error
            if line.on_disk:
                line.on_disk.set_exception(_stopped(self.directory, error))


def _stopped(directory: Path, error: OSError | None) -> RunStoppedError:
    assert error is not None
    return RunStoppedError(
        f"cannot write to {directory}: {error.strerror or error}",
        remedy="What was recorded before is kept. Make room or make it writable, and run again.",
    )


def _json(value: object, indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators, indent=indent)
    # A lone surrogate (a file name that is not UTF-8) becomes the JSON escape \udcNN and so survives.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
