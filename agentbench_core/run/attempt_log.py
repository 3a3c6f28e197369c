"""Where the events and the evidence of one attempt go."""

from __future__ import annotations

from typing import Protocol

import attrs

from agentbench_core.errors import InputError, Interrupted
from agentbench_core.evidence.store import Store
from agentbench_core.values.events import AgentTurnStarted, Delegation, Event, Warning_
from agentbench_core.values.execution import Output


class Evidence(Protocol):
    """Takes what is to be kept of an attempt, by its path in the attempt's directory."""

    def write(self, name: str, data: bytes | str) -> None:
        """Keep one file."""

    def append_json(self, name: str, value: object) -> None:
        """Add one line of JSON to a file."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Keep both streams of a phase, shortened or ``full``."""


@attrs.define
class AttemptLog:
    """Implements ``EventLog`` for one attempt, until it has its record."""

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
    """The same for the agent: it speaks of itself, not for the harness."""

    log: AttemptLog

    def emit(self, event: Event) -> None:
        """Write one event. Raises InputError for one that is not an agent's to write."""
        if not isinstance(event, (AgentTurnStarted, Delegation, Warning_)):
            raise InputError(f"an agent may write AgentTurnStarted, Delegation and Warning_, not {event!r}")
        self.log.emit(event)
