"""Destinations of an attempt's events and evidence: the run's store, or memory while tasks are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import InputError, Interrupted
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.run.observer import RunObserver
from agentbench_core.values.events import AgentTurnStarted, Delegation, Event, Warning_
from agentbench_core.values.execution import Output

_TAIL = 15  # number of last lines kept from each stream


class AttemptEvents(Protocol):
    """Receives the events of one attempt; an ``EventLog`` that can also write them durably."""

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Write one event. With ``durable``, it is on disk when this method returns."""


class Evidence(Protocol):
    """Receives the files of one attempt, by path relative to the attempt's directory."""

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Write one file."""

    def append_json(self, name: str, value: object) -> None:
        """Append one line of JSON to a file."""

    def append(self, name: str, data: bytes) -> None:
        """Append whole lines to a file."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Write both streams of a phase, shortened or ``full``."""

    def cleaned(self, value: object) -> Any:
        """A value as plain data with secrets redacted, as it would be written."""


@attrs.frozen(kw_only=True)
class Recording:
    """Events and evidence of one attempt."""

    log: AttemptEvents  #: receives events
    files: Evidence  #: receives files
    directory: Path | None = None  #: contains the attempt's files; `None` if no files are written


@attrs.define
class AttemptLog:
    """Implements ``AttemptEvents`` on the run's store, until the attempt is recorded; an observer gets each event."""

    store: Store
    attempt_id: str
    observer: RunObserver
    ended: bool = False

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Write one event. Raises Interrupted if the attempt has ended, as for an agent thread that outlived it."""
        if self.ended:
            raise Interrupted("the attempt has ended")
        self.store.emit(event, self.attempt_id, durable=durable)
        self.observer.event(self.attempt_id, event)


@attrs.frozen
class AgentLog:
    """Writes only the events that an agent may write itself."""

    log: AttemptEvents

    def emit(self, event: Event) -> None:
        """Write one event. Raises InputError for an event that agents must not write."""
        if not isinstance(event, (AgentTurnStarted, Delegation, Warning_)):
            raise InputError(f"agents may only write AgentTurnStarted, Delegation and Warning_, not {event!r}")
        self.log.emit(event)


@attrs.frozen
class WarningLog:
    """Implements ``AttemptEvents`` without a run: warnings are shown to the user, other events are dropped."""

    note: Callable[[str], None]  #: shows a message to the user

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Show a warning; drop every other event."""
        if isinstance(event, Warning_):
            self.note(event.message)


class MemoryEvidence:
    """Implements ``Evidence`` without a run: keeps the last output, to explain the outcome of an attempt."""

    def __init__(self, *streams: Output) -> None:
        self._streams = streams

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Ignored."""

    def append_json(self, name: str, value: object) -> None:
        """Ignored."""

    def append(self, name: str, data: bytes) -> None:
        """Ignored."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Keep both streams, replacing the streams of an earlier phase."""
        self._streams = (stdout, stderr)

    def cleaned(self, value: object) -> Any:
        """The value as plain data."""
        return dump(value)

    def tail(self, redactor: Redactor) -> str:
        """The last lines of each stream, with secrets redacted."""
        texts = [redactor.clean(stream.data).decode("utf-8", "backslashreplace") for stream in self._streams]
        return "\n".join(line for text in texts for line in text.strip().splitlines()[-_TAIL:])
