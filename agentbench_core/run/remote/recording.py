"""Events and files of an attempt on a worker: written to a directory of the worker, and sent in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentbench_core.converter import dump
from agentbench_core.errors import Interrupted
from agentbench_core.evidence import layout
from agentbench_core.evidence.attempt_files import AttemptFiles
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.run.remote.calls import RefusedError
from agentbench_core.run.remote.documents import Message, encoded, parts
from agentbench_core.values.events import Event, event_type

_MOST_BYTES = 8 << 20
"""Bytes that wait to be sent, after which a thread that adds more waits."""

_GATHER_SEC = 0.2
"""Collects entries that no thread waits for, since each message costs time."""


class Outbox:
    """Sends the entries of one attempt, in order and in numbered messages. Thread-safe.

    ``send`` sends one message. It raises Interrupted if the attempt is lost, or RefusedError; from then on, every
    method raises this error.
    """

    def __init__(self, lease: int, token: str, send: Callable[[Message], None]) -> None:
        self._lease = lease
        self._token = token
        self._send = send
        self._entries: list[Mapping[str, Any]] = []
        self._bytes = 0
        self._number = 0
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"outbox {lease}", daemon=True)
        self._thread.start()

    def add(self, entry: Mapping[str, Any], size: int = 200) -> None:
        """Add an entry of about ``size`` bytes. Waits while too much is pending. Raises the error of ``send``."""
        with self._changed:
            self._check()
            self._entries.append(entry)
            self._bytes += size
            self._changed.notify_all()
            full = self._bytes > _MOST_BYTES
        if full:
            self.flush()

    def flush(self) -> int:
        """Send everything that was added, and return the number of the last message."""
        with self._sending:
            with self._changed:
                self._check()
                entries, self._entries, self._bytes = self._entries, [], 0
                self._number += bool(entries)
                number = self._number
            if entries:
                try:
                    self._send(Message(lease=self._lease, token=self._token, number=number, entries=tuple(entries)))
                except BaseException as error:
                    with self._changed:
                        self._error = self._error or error
                    raise
            return number

    def close(self) -> None:
        """Send nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _check(self) -> None:
        if isinstance(self._error, RefusedError):
            raise self._error
        if self._error is not None:
            raise Interrupted(f"the attempt is lost: {self._error}")
        if self._closed:
            raise Interrupted("the attempt has ended")

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._closed)
                if self._changed.wait_for(lambda: self._closed, timeout=_GATHER_SEC) or self._error:
                    return
            try:
                self.flush()
            except BaseException:  # noqa: BLE001 - raised in the threads of the attempt by their next call
                return


class RemoteLog:
    """Implements ``AttemptEvents``."""

    def __init__(self, outbox: Outbox, redactor: Redactor) -> None:
        self._outbox = outbox
        self._redactor = redactor

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Send one event. With ``durable``, it has arrived when this method returns."""
        fields = self._redactor.clean_value(dump(event))
        self._outbox.add({"event": {"type": event_type(type(event)), **fields}}, size=_size(fields))
        if durable:
            self._outbox.flush()


class RemoteFiles(AttemptFiles):
    """Implements ``Evidence``: every file is written here, where auditors read it, and sent.

    The conversation is written only here; the process that makes the model calls writes it itself.
    """

    def __init__(self, directory: Path, redactor: Redactor, outbox: Outbox) -> None:
        super().__init__(directory, redactor)
        self._outbox = outbox

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """See the base class."""
        super().write(name, data, executable=executable)
        self._sent(name, data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"), executable)

    def write_json(self, name: str, value: object) -> None:
        """See the base class."""
        super().write_json(name, value)
        self._sent(name, (self.directory / name).read_bytes())

    def _append(self, name: str, line: bytes) -> None:
        super()._append(name, line)
        if name != layout.CONVERSATION:
            for part, more in parts(line):
                self._outbox.add({"append": name, "data": encoded(part), "more": more}, size=2 * len(part))

    def _sent(self, name: str, data: bytes, executable: bool = False) -> None:
        for part, more in parts(self._redactor.clean(data)):
            entry = {"file": name, "data": encoded(part), "executable": executable, "more": more}
            self._outbox.add(entry, size=2 * len(part))


def _size(fields: Mapping[str, Any]) -> int:
    return 200 + sum(len(value) for value in fields.values() if isinstance(value, str))
