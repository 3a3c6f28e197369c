"""The one writer of a run directory.

Events and records are appended by a single thread, in the order in which they were handed over. A record
counts when its line has reached the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import IO, Any

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import Interrupted, RunStoppedError
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.holding import hold
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.repair import mend
from agentbench_core.values.events import Event, TaskFinished, event_type
from agentbench_core.values.execution import Output
from agentbench_core.values.record import AttemptRecord, RunManifest

_OF_A_NAME = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""What an agent can cause by the names of its files. Every other refusal to take evidence comes from outside."""

_AT_ONCE = 500  # lines that one sync brings to disk


@attrs.frozen
class _Line:
    file: str
    data: bytes
    on_disk: Future[None] | None


class AttemptFiles:
    """The directory of one attempt: everything that it writes lies below. Used by that attempt's threads only."""

    def __init__(
        self, directory: Path, redactor: Redactor, refused: Callable[[OSError], RunStoppedError] | None = None
    ) -> None:
        self.directory = directory
        self._redactor = redactor
        self._refused = refused
        self._closed = False
        self._grown: dict[str, str] = {}
        """Paths of the files that grow line by line."""
        journal.step(lambda: directory.mkdir(parents=True))
        directory.mkdir(parents=True)

    def close(self) -> None:
        """Take nothing more: what comes late would tell another story than the record."""
        self._closed = True

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Write one file, by its path below the directory. Raises RunStoppedError when the disk takes nothing more."""
        with self._disk():
            path = self._path(name)
            path.write_bytes(self._redactor.clean(_bytes(data)))
            if executable:
                path.chmod(path.stat().st_mode | 0o111)

    def write_json(self, name: str, value: object) -> None:
        """Write one value as indented JSON."""
        data = journal.json_line(self.cleaned(value), indent=2)
        with self._disk():
            self._path(name).write_bytes(data)

    def cleaned(self, value: object) -> Any:
        """A value as plain data, as it would be written: without secrets."""
        return self._redactor.clean_value(dump(value))

    def append_json(self, name: str, value: object) -> None:
        """Add one line of JSON to a file."""
        line = journal.json_line(self.cleaned(value))
        with self._disk():
            if name not in self._grown:
                self._grown[name] = str(self._path(name))
            with open(self._grown[name], "ab") as file:  # noqa: PTH123 - every call of a model comes here
                file.write(line)

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool = False) -> None:
        """Write both streams of a phase, shortened; with ``full`` also all that the sandbox kept of them."""
        for stream, output in (("stdout", stdout), ("stderr", stderr)):
            self.write(layout.log_path(phase, stream), layout.shorten(output.text))
            if full:
                self.write(layout.log_path(phase, f"{stream}_full"), output.data)

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        """Evidence that the disk refuses stops the run: no agent caused that, and the next will not fit either."""
        if self._closed:
            raise Interrupted("the attempt has ended")
        try:
            yield
        except OSError as error:
            if error.errno in _OF_A_NAME:
                raise
            raise (self._refused or self._stopped)(error) from None

    def _stopped(self, error: OSError) -> RunStoppedError:
        return _stopped(self.directory, error)

    def _path(self, name: str) -> Path:
        # Names below repo/ are an agent's. Ours stay, whatever word somebody has for a secret.
        path = self.directory / (self._redactor.clean_text(name) if name.startswith("repo/") else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class Store:
    """A run directory that is being written. Thread-safe; close it to flush the rest."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        """Make the directory, or mend it after a crash, and hold it until :meth:`close`.

        ``mended`` says in words what was done. Raises InputError when somebody else writes there, when nobody can,
        and when it is damaged.
        """
        self.directory = directory
        self._redactor = redactor
        with contextlib.ExitStack() as stack:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(hold(directory))
                mended = mend(directory)
            except OSError as error:
                raise _stopped(directory, error) from None
            self._letting_go = stack.pop_all()
        self.mended = mended.notes
        self._queue: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._order = threading.Lock()
        self._seq = mended.last_seq
        self._closed = False
        self._problem: OSError | None = None
        self._writer = threading.Thread(target=self._write, name="store", daemon=True)
        self._writer.start()

    def write_manifest(self, manifest: RunManifest) -> None:
        """Write ``run.json`` as a whole or not at all."""
        data = journal.json_line(self._redactor.clean_value(dump(manifest)), indent=2)
        try:
            journal.replace(self.directory / layout.MANIFEST, data)
        except OSError as error:
            raise _stopped(self.directory, error) from None

    def emit(self, event: Event, attempt_id: str | None = None, *, durable: bool = False) -> None:
        """Append an event; with ``durable`` return only when it is on disk.

        Raises RunStoppedError once the disk refuses: nothing that cannot be recorded should go on.
        """
        on_disk: Future[None] | None = Future() if durable else None
        fields = self._fields(event)
        with self._order:
            self._put_event(type(event), fields, attempt_id, on_disk)
        if on_disk:
            on_disk.result()

    def record(self, record: AttemptRecord, explanation: str) -> None:
        """Append an attempt's record, first as an event; returns when both are on disk."""
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
        """The directory for one attempt. Raises RunStoppedError when it cannot be made."""
        try:
            return AttemptFiles(
                self.directory / layout.task_directory(task_id, repeat), self._redactor, self._stop_for_good
            )
        except OSError as error:
            raise _stopped(self.directory, error) from None

    def clean_file(self, path: Path) -> None:
        """Take secrets out of a file below the directory that somebody else wrote. Raises OSError."""
        place = path.resolve(strict=True)
        ours = {layout.MANIFEST, layout.ATTEMPTS, layout.EVENTS}  # clean, and sealed
        if not place.is_relative_to(self.directory.resolve()) or place.name in ours or not place.is_file():
            return
        data = place.read_bytes()
        cleaned = self._redactor.clean_json(data) if place.suffix == ".json" else self._redactor.clean(data)
        if cleaned != data:
            mode = place.stat().st_mode
            journal.replace(place, cleaned)
            place.chmod(mode)

    def set_aside(self, task_id: str, repeat: int, attempt_id: str) -> None:
        """Keep the directory of an attempt that is tried again under the attempt's own name."""
        kept = self.directory / layout.superseded_directory(attempt_id)
        try:
            kept.parent.mkdir(exist_ok=True)
            journal.step()
            (self.directory / layout.task_directory(task_id, repeat)).rename(kept)
            journal.sync_directory(kept.parent)
        except FileNotFoundError:
            pass  # it died before it had one
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
        self._letting_go.close()
        if self._problem is not told:
            raise _stopped(self.directory, self._problem)

    def _stop_for_good(self, error: OSError) -> RunStoppedError:
        self._problem = self._problem or error
        return _stopped(self.directory, error)

    def _fields(self, event: Event) -> bytes:
        """An event as JSON, without its envelope. Made outside of the lock that all threads share."""
        return journal.json_line(self._redactor.clean_value(dump(event)))[:-1]

    def _put_event(self, kind: type, fields: bytes, attempt_id: str | None, on_disk: Future[None] | None) -> None:
        line = journal.event_line(self._seq + 1, attempt_id, event_type(kind), fields)
        self._put(_Line(layout.EVENTS, line, on_disk))
        self._seq += 1  # only now: what cannot be written uses up no number

    def _put(self, line: _Line) -> None:
        if self._problem is not None:
            raise _stopped(self.directory, self._problem)
        if self._closed:
            raise RunStoppedError(f"{self.directory} is closed: nothing more can be written there")
        self._queue.put(line)

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
                self._append({}, lines)  # whoever waits for the disk must hear of it

    @staticmethod
    def _half(file: IO[bytes], data: bytes) -> None:
        file.write(data[: len(data) // 2])
        file.flush()

    def _next_lines(self) -> tuple[list[_Line], bool]:
        """What waits to be written, one line at least, and whether it is the last: one sync serves many attempts."""
        found = [self._queue.get()]
        with contextlib.suppress(queue.Empty):
            while found[-1] is not None and len(found) < _AT_ONCE:
                found.append(self._queue.get_nowait())
        return [line for line in found if line is not None], found[-1] is None

    def _append(self, files: Mapping[str, IO[bytes]], lines: Sequence[_Line]) -> None:
        """Events first: the event of a record is on disk before the record is written."""
        try:
            if self._problem is not None:
                raise self._problem
            for name in (layout.EVENTS, layout.ATTEMPTS):
                self._append_to(files[name], [line for line in lines if line.file == name])
        except OSError as error:
            self._problem = error
            for line in lines:
                if line.on_disk and not line.on_disk.done():
                    line.on_disk.set_exception(_stopped(self.directory, error))

    def _append_to(self, file: IO[bytes], lines: Sequence[_Line]) -> None:
        for line in lines:
            journal.step(partial(self._half, file, line.data))
            file.write(line.data)
        file.flush()
        waiting = [line.on_disk for line in lines if line.on_disk]
        if waiting:
            os.fsync(file.fileno())
        for on_disk in waiting:
            on_disk.set_result(None)


def _stopped(directory: Path, error: OSError | None) -> RunStoppedError:
    assert error is not None
    return RunStoppedError(
        f"cannot write to {directory}: {error.strerror or error}",
        remedy="What was recorded is kept. Make room or make it writable, then: agentbench run --resume "
        + shlex.quote(str(directory)),
    )


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
