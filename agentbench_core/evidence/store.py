"""The one writer of a run directory.

Events and records are appended by a single thread, in the order of submission. A record is valid once its line is on
disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import IO

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import RunStoppedError
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.attempt_files import AttemptFiles, write_refused
from agentbench_core.evidence.recovery import lock_run, recover
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.events import Event, ManifestWritten, TaskFinished, event_type
from agentbench_core.values.record import AttemptRecord, RunManifest

_GATHER_SEC = 0.02  # collects lines that no thread waits for, since each wakeup of the writer costs time


@attrs.frozen
class _Line:
    file: str
    data: bytes
    on_disk: Future[None] | None


class Store:
    """A run directory that is being written. Thread-safe; close it to write pending lines."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        """Create the directory, or recover it after a crash, and lock it until :meth:`close`.

        ``recovery`` describes what was done. Raises InputError if another process is writing to the directory, or if it
        is damaged or not writable, and RunStoppedError on a disk error.
        """
        self.directory = directory
        self._redactor = redactor
        with contextlib.ExitStack() as stack:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(lock_run(directory))
                recovery = recover(directory)
            except OSError as error:
                raise write_refused(directory, error) from None
            self._cleanup = stack.pop_all()
        self.recovery = recovery.notes
        self._order = threading.Lock()
        self._lines: list[_Line] = []
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """Signals that lines are to be written; true if a thread waits for them."""
        self._seq = recovery.last_seq
        self._closed = False
        self._problem: OSError | None = None
        self._writer = threading.Thread(target=self._write, name="store", daemon=True)
        self._writer.start()

    def write_manifest(self, manifest: RunManifest) -> None:
        """Write ``run.json`` atomically, and the event that contains it.

        The event is written first, so that ``run.json`` still matches an event after a crash in between.
        """
        self.emit(ManifestWritten(manifest=manifest), durable=True)
        data = journal.json_line(self._redactor.clean_value(dump(manifest)), indent=2)
        try:
            journal.replace(self.directory / layout.MANIFEST, data)
        except OSError as error:
            raise write_refused(self.directory, error) from None

    def emit(self, event: Event, attempt_id: str | None = None, *, durable: bool = False) -> None:
        """Append an event. With ``durable``, return only when it is on disk.

        Raises RunStoppedError after a disk error, since nothing may continue without being recorded.
        """
        on_disk: Future[None] | None = Future() if durable else None
        fields = self._fields(event)
        with self._order:
            self._put_event(type(event), fields, attempt_id, on_disk)
        if on_disk:
            on_disk.result()

    def record(self, record: AttemptRecord, explanation: str) -> None:
        """Append an attempt's record, first as an event, and return when both are on disk."""
        as_event: Future[None] = Future()
        as_line: Future[None] = Future()
        fields = self._fields(TaskFinished(record=record, explanation=explanation))
        line = journal.json_line(self._redactor.clean_value(dump(record)))
        with self._order:  # so that both files have the records in the same order
            self._put_event(TaskFinished, fields, record.attempt_id, as_event)
            self._put(_Line(layout.ATTEMPTS, line, as_line))
        as_event.result()
        as_line.result()

    def attempt_files(self, task_id: str, repeat: int) -> AttemptFiles:
        """Create the directory of one attempt. Raises RunStoppedError if it cannot be created."""
        try:
            return AttemptFiles(
                self.directory / layout.task_directory(task_id, repeat), self._redactor, self._fail_permanently
            )
        except OSError as error:
            raise write_refused(self.directory, error) from None

    def clean_file(self, path: Path) -> None:
        """Redact secrets in a file that other code wrote to the directory; skip others. Raises OSError on failure."""
        resolved = path.resolve(strict=True)
        own = {layout.MANIFEST, layout.ATTEMPTS, layout.EVENTS}  # already redacted, and checksummed
        if not resolved.is_relative_to(self.directory.resolve()) or resolved.name in own or not resolved.is_file():
            return
        data = resolved.read_bytes()
        cleaned = self._redactor.clean_json(data) if resolved.suffix == ".json" else self._redactor.clean(data)
        if cleaned != data:
            mode = resolved.stat().st_mode
            journal.replace(resolved, cleaned)
            resolved.chmod(mode)

    def archive_attempt(self, task_id: str, repeat: int, attempt_id: str) -> None:
        """Move the directory of a retried attempt to its archive path."""
        retained = self.directory / layout.superseded_directory(attempt_id)
        try:
            retained.parent.mkdir(exist_ok=True)
            journal.checkpoint()
            (self.directory / layout.task_directory(task_id, repeat)).rename(retained)
            journal.sync_directory(retained.parent)
        except FileNotFoundError:
            pass  # the attempt died before it had a directory
        except OSError as error:
            raise write_refused(self.directory, error) from None

    def close(self) -> None:
        """Write pending lines and unlock the directory. Idempotent. Raises RunStoppedError if that fails."""
        if not self._writer.is_alive():
            return
        problem = self._problem
        with self._order:
            self._closed = True
            self._wake.put(True)
        self._writer.join()
        self._cleanup.close()
        if self._problem is not problem:
            raise write_refused(self.directory, self._problem)

    def _fail_permanently(self, error: OSError) -> RunStoppedError:
        self._problem = self._problem or error
        return write_refused(self.directory, error)

    def _fields(self, event: Event) -> bytes:
        """An event as JSON, without its envelope. Computed outside of the lock that all threads share."""
        return journal.json_line(self._redactor.clean_value(dump(event)))[:-1]

    def _put_event(self, kind: type, fields: bytes, attempt_id: str | None, on_disk: Future[None] | None) -> None:
        line = journal.event_line(self._seq + 1, attempt_id, event_type(kind), fields)
        self._put(_Line(layout.EVENTS, line, on_disk))
        self._seq += 1  # only now: a failed event must not use up a number

    def _put(self, line: _Line) -> None:
        if self._problem is not None:
            raise write_refused(self.directory, self._problem)
        if self._closed:
            raise RunStoppedError(f"{self.directory} is closed: nothing more can be written to it")
        self._lines.append(line)
        if line.on_disk or len(self._lines) == 1:
            self._wake.put(line.on_disk is not None)

    def _write(self) -> None:
        ended = False
        try:
            with (
                (self.directory / layout.EVENTS).open("ab") as events,
                (self.directory / layout.ATTEMPTS).open("ab") as attempts,
            ):
                files = {layout.EVENTS: events, layout.ATTEMPTS: attempts}
                while not ended:
                    lines, ended = self._next_lines()
                    self._append(files, lines)
        except OSError as error:  # opening or closing failed
            self._problem = self._problem or error
            while not ended:
                lines, ended = self._next_lines()
                self._append({}, lines)  # threads waiting for the disk get the error

    @staticmethod
    def _half(file: IO[bytes], data: bytes) -> None:
        file.write(data[: len(data) // 2])
        file.flush()

    def _next_lines(self) -> tuple[list[_Line], bool]:
        """Wait for lines. Returns all pending ones (one sync can serve many), and whether the writer should end."""
        urgent = self._wake.get()
        with contextlib.suppress(queue.Empty):
            while not urgent:
                urgent = self._wake.get(timeout=_GATHER_SEC)
        with self._order:
            lines, self._lines = self._lines, []
            while not self._wake.empty():
                self._wake.get()
            return lines, self._closed

    def _append(self, files: Mapping[str, IO[bytes]], lines: Sequence[_Line]) -> None:
        """Write events first, so that the event of a record is on disk before the record is written."""
        try:
            if self._problem is not None:
                raise self._problem
            for name in (layout.EVENTS, layout.ATTEMPTS):
                self._append_to(files[name], [line for line in lines if line.file == name])
        except OSError as error:
            self._problem = error
            for line in lines:
                if line.on_disk and not line.on_disk.done():
                    line.on_disk.set_exception(write_refused(self.directory, error))

    def _append_to(self, file: IO[bytes], lines: Sequence[_Line]) -> None:
        for line in lines:
            journal.checkpoint(partial(self._half, file, line.data))
            file.write(line.data)
        file.flush()
        waiting = [line.on_disk for line in lines if line.on_disk]
        if waiting:
            os.fsync(file.fileno())
            _check_in_place(file)
        for on_disk in waiting:
            on_disk.set_result(None)


def _check_in_place(file: IO[bytes]) -> None:
    """Raise OSError if the open file is no longer at its path: it was removed, or its directory was moved."""
    if not os.path.samestat(Path(file.name).stat(), os.fstat(file.fileno())):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.name)
