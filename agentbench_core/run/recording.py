"""Where the events and the evidence of one attempt go: into the run's store, or, while tasks are checked, nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import InputError, Interrupted
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.values.events import AgentTurnStarted, Delegation, Event, Warning_
from agentbench_core.values.execution import Output

_TAIL = 15  # lines of each stream


class AttemptEvents(Protocol):
    """Takes the events of one attempt; an ``EventLog`` whose events can be made durable."""

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Take one event; with ``durable`` it is on the disk before this returns."""


class Evidence(Protocol):
    """Takes the files of one attempt, by their path in the attempt's directory."""

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Take one file."""

    def append_json(self, name: str, value: object) -> None:
        """Take one more line of JSON for a file."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Take both streams of a phase, shortened or ``full``."""

    def cleaned(self, value: object) -> Any:
        """A value as plain data, as it would be written: without secrets."""


@attrs.frozen(kw_only=True)
class Recording:
    """Both, of one attempt. ``directory`` is where its files lie; ``None`` if they are not written anywhere."""

    log: AttemptEvents
    files: Evidence
    directory: Path | None = None


@attrs.define
class AttemptLog:
    """Implements ``AttemptEvents`` on the run's store, until the attempt has its record."""

    store: Store
    attempt_id: str
    ended: bool = False

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Write one event. Raises Interrupted for an agent's thread that outlived its attempt."""
        if self.ended:
            raise Interrupted("the attempt has ended")
        self.store.emit(event, self.attempt_id, durable=durable)


@attrs.frozen
class AgentLog:
    """The same for the agent, which writes of itself, not for the harness."""

    log: AttemptEvents

    def emit(self, event: Event) -> None:
        """Write one event. Raises InputError for one that is not an agent's to write."""
        if not isinstance(event, (AgentTurnStarted, Delegation, Warning_)):
            raise InputError(f"an agent may write AgentTurnStarted, Delegation and Warning_, not {event!r}")
        self.log.emit(event)


@attrs.frozen
class WarningLog:
    """Implements ``AttemptEvents`` where no run is recorded: warnings go to the person at the terminal."""

    note: Callable[[str], None]

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Pass a warning on; drop every other event."""
        if isinstance(event, Warning_):
            self.note(event.message)


class MemoryEvidence:
    """Implements ``Evidence`` where no run is recorded: keeps the last output, which explains how an attempt ended."""

    def __init__(self, *streams: Output) -> None:
        self._streams = streams

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Not needed."""

    def append_json(self, name: str, value: object) -> None:
        """Not needed."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Keep both streams in place of those of an earlier phase."""
        self._streams = (stdout, stderr)

    def cleaned(self, value: object) -> Any:
        """As plain data; it is not written."""
        return dump(value)

    def tail(self, redactor: Redactor) -> str:
        """The last lines of each stream, without secrets."""
        texts = [redactor.clean(stream.data).decode("utf-8", "backslashreplace") for stream in self._streams]
        return "\n".join(line for text in texts for line in text.strip().splitlines()[-_TAIL:])
