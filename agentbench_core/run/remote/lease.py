"""A worker, and an attempt that is lent to it: receives events, files and conclusion, and writes them to the run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

import attrs

from agentbench_core.converter import load
from agentbench_core.errors import InputError, Interrupted
from agentbench_core.evidence import layout
from agentbench_core.plugin.registry import ADVERSARY
from agentbench_core.run.attempt.agent import AgentPhaseResult
from agentbench_core.run.attempt.record import Conclusion, local_time, make_record
from agentbench_core.run.attempt.work import QueuedAttempt
from agentbench_core.run.attempt.writing import AttemptWriter
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.remote.documents import Message, decoded
from agentbench_core.run.remote.model_calls import ModelCalls
from agentbench_core.values import events
from agentbench_core.values.failures import Outcome
from agentbench_core.values.messages import Usage

_EVENTS = (
    *(events.SetupCommandStarted, events.SetupCommandFinished, events.BaselineStarted, events.BaselineFinished),
    *(events.AgentTurnStarted, events.ToolCallStarted, events.ToolCallFinished, events.PatchApplied),
    *(events.Delegation, events.TestsStarted, events.TestsFinished, events.Warning_, events.InfrastructureError),
)
"""Events that a worker may report. Model calls, starts and ends of attempts are written by this process only."""

_ACCEPTED: Mapping[str, Any] = {events.event_type(cls): cls for cls in _EVENTS}
_ROOTS = {"agent", "diffs", "logs", "meta", layout.REPO}
_FILES = {"task.yaml", layout.WORKSPACE}
_RESPONSES = PurePosixPath(layout.native_response(1)).parent
_PHASES = {"source", "environment", "baseline", "agent", "freeze", "score"}
_PLANNED_LABELS = {"oracle", ADVERSARY, "flaky"}
"""Labels that follow from the plan, which a worker cannot add."""

_WITHOUT_AGENT = (Outcome.SANDBOX_ERROR, Outcome.INTERRUPTED)
"""Outcomes of attempts that may have ended within the agent phase, so that its result is missing."""

_PHASES_SEC = 10
"""Upper bound of the calibration, baseline, agent and scoring phases together, as a multiple of the time limit."""

_ALLOWANCE_SEC = 3600.0
"""Additional seconds for work without a time limit, such as checkouts and waits for disk space."""

_MOST_ENTRIES = 500_000
_MOST_FILES = 100_000
_MOST_BYTES = 4 << 30
_LARGEST_FILE = 1 << 30

Accept = Callable[[str, Mapping[str, str]], str]
"""Compares digest and facts of an environment; returns why it is refused, or an empty string."""


@attrs.define(kw_only=True, eq=False)
class KnownWorker:
    """A worker that was accepted."""

    name: str
    peer: str
    """Its identity, if the transport can prove it."""
    places: int
    lent: int = 0
    """Number of attempts that it has."""
    leases: set[int] = attrs.field(factory=set)
    taken: dict[int, int] = attrs.field(factory=dict)
    """Leases by the number of the request that they answer."""
    taking: threading.Lock = attrs.field(factory=threading.Lock)
    unsuited: dict[str, str] = attrs.field(factory=dict)
    """Why its environment of a task is refused, by task id."""
    seen: float = attrs.field(factory=time.monotonic)
    """When it last made a call, on the monotonic clock."""


class Lease:
    """One attempt on one worker. Everything that the worker sends is checked; invalid data raises InputError."""

    def __init__(
        self, number: int, token: str, worker: str, peer: str, attempt: QueuedAttempt, observer: RunObserver
    ) -> None:
        self.number = number
        self.token = token
        self.worker = worker
        self.peer = peer
        self.attempt = attempt
        self.seen = time.monotonic()
        """When its worker last sent something about it, on the monotonic clock."""
        self.models: ModelCalls | None = None
        self.received = 0
        """Number of the last message."""
        self.closed = False
        self.lock = threading.RLock()
        self._observer = observer
        self._started = time.monotonic()
        self._started_at = local_time()
        self._refused: tuple[int, str] | None = None
        """Number of a message that was refused, and why."""
        self._parts: dict[str, bytearray] = {}
        self._names: set[str] = set()
        self._entries = 0
        self._bytes = 0
        self._steps = 0
        self.writer = AttemptWriter(attempt.plan, attempt.run.store, observer, worker)

    @property
    def longest_sec(self) -> float:
        """Seconds after which even a slow attempt has ended, so that its worker must be faulty."""
        plan = self.attempt.plan
        setup = 2 * plan.task.spec.environment.setup_timeout_sec  # it may have waited for the setup of another attempt
        extended = self.models.extended_sec if self.models else 0.0
        return setup + _PHASES_SEC * plan.limits.timeout_sec + extended + _ALLOWANCE_SEC

    @property
    def is_overdue(self) -> bool:
        """Whether it has been lent for longer than :attr:`longest_sec`."""
        return time.monotonic() - self._started > self.longest_sec

    def receive(self, message: Message, accept: Accept) -> str:
        """Write the contents of a message. Returns why the worker must return the attempt, or an empty string.

        A message that was received before has no effect. Raises Interrupted if the attempt has ended.
        """
        with self.lock:
            if self.closed:
                raise Interrupted("the attempt has ended")
            if self._refused is not None and message.number >= self._refused[0]:
                return self._refused[1]
            if message.number <= self.received:
                return ""
            if message.number > self.received + 1:
                raise InputError(f"message {self.received + 1} is missing")
            for entry in message.entries:
                if refused := self._receive(entry, accept):
                    self._refused = (message.number, refused)
                    return refused
            self.received = message.number
        return ""

    def _receive(self, entry: Mapping[str, Any], accept: Accept) -> str:
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise InputError(f"an attempt may send at most {_MOST_ENTRIES} events and files")
        match entry:
            case {"event": {"type": str(name), **fields}}:
                if name not in _ACCEPTED:
                    raise InputError(f"a worker cannot report the event {name[:60]!r}")
                event = load(fields, _ACCEPTED[name], where=f"event {name}")
                self._steps += isinstance(event, events.ToolCallStarted)
                self.writer.log.emit(event)
            case {"phase": str(phase)} if phase in _PHASES:
                self._observer.phase_started(self.attempt.plan.attempt_id, phase)
            case {"file": str(name), "data": str(data), "executable": bool(executable), "more": bool(more)}:
                self._file(name, decoded(data), executable=executable, more=more)
            case {"append": str(name), "data": str(data), "more": bool(more)}:
                if (whole := self._whole(f"+{name}", checked_name(name), decoded(data), more=more)) is not None:
                    self._written(name, lambda: self.writer.files.append(name, whole))
            case {"environment": {"digest": str(digest), "facts": dict(facts)}}:
                return accept(digest, {str(key): str(value) for key, value in facts.items()})
            case _:
                raise InputError(f"an entry is not valid: {repr(entry)[:200]}")
        return ""

    def _file(self, name: str, data: bytes, *, executable: bool, more: bool) -> None:
        whole = self._whole(name, checked_name(name), data, more=more)
        if whole is not None:
            self._written(name, lambda: self.writer.files.write(name, whole, executable=executable))

    def _whole(self, key: str, name: str, data: bytes, *, more: bool) -> bytes | None:
        """The data of a file after its last part; ``None`` before."""
        self._bytes += len(data)
        self._names.add(name)
        if self._bytes > _MOST_BYTES or len(self._names) > _MOST_FILES:
            raise InputError(f"an attempt may send at most {_MOST_FILES} files and {_MOST_BYTES >> 30} GiB")
        whole = self._parts.setdefault(key, bytearray())
        whole += data
        if len(whole) > _LARGEST_FILE:
            raise InputError(f"a file may have at most {_LARGEST_FILE >> 30} GiB")
        return None if more else bytes(self._parts.pop(key))

    def _written(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:  # only for names that conflict with others, or are too long
            raise InputError(f"the file {name[:200]!r} cannot be written: {error.strerror}") from None

    def concluded(self, end: Conclusion) -> Conclusion:
        """A worker's conclusion with the facts that are known here. Raises InputError if it contradicts them."""
        if wrong := sorted({label.name for label in end.labels} & _PLANNED_LABELS):
            raise InputError(f"a worker cannot add the label {wrong[0]!r}")
        agent = end.agent
        if agent is None and self._calls:
            if end.outcome not in _WITHOUT_AGENT:
                raise InputError("the conclusion has no agent phase, but model calls were made")
            agent = self._agent(end.outcome, end.explanation)
        if agent is not None:
            agent = attrs.evolve(agent, steps=self._steps, llm_calls=self._calls, usage=self._usage)
        most = round(time.monotonic() - self._started, 3)
        made = attrs.evolve(
            end, agent=agent, started_at=self._started_at, duration_sec=min(max(0.0, end.duration_sec), most)
        )
        try:
            make_record(self.attempt.plan, made, self.writer.files.directory)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise InputError(f"the conclusion cannot be recorded: {type(error).__name__}: {error}") from None
        return made

    def final(self, end: Conclusion) -> Conclusion:
        """:meth:`concluded` after :meth:`close`; as interrupted if a call that arrived last contradicts the conclusion.

        The record contains the usage in any case.
        """
        try:
            return self.concluded(end)
        except InputError as error:
            return self.interrupted(error.message)

    def interrupted(self, why: str) -> Conclusion:
        """The conclusion of an attempt whose worker was lost, or that was stopped here."""
        return Conclusion(
            outcome=Outcome.INTERRUPTED,
            explanation=why,
            started_at=self._started_at,
            duration_sec=round(time.monotonic() - self._started, 3),
            agent=self._agent(Outcome.INTERRUPTED, why),
        )

    def _agent(self, outcome: Outcome, why: str) -> AgentPhaseResult:
        """An agent phase with an unknown result, and the usage that was counted here."""
        return AgentPhaseResult(
            outcome=outcome,
            message=why,
            steps=self._steps,
            llm_calls=self._calls,
            usage=self._usage,
            prompt_version="",
        )

    def close(self) -> bool:
        """Accept nothing more; model calls in progress are abandoned at their worst-case cost. False if already closed.

        After this, nothing that the worker sends is written.
        """
        with self.lock:
            if self.closed:
                return False
            self.closed = True
        if self.models is not None:
            self.models.close()
        return True

    @property
    def _calls(self) -> int:
        return self.models.models.calls if self.models else 0

    @property
    def _usage(self) -> Usage:
        return self.models.models.usage if self.models else Usage(cost_usd=0.0)


def checked_name(name: str) -> str:
    """The path of a file of evidence that a worker may write. Raises InputError for any other."""
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    known = name in _FILES or (len(path.parts) > 1 and path.parts[0] in _ROOTS)
    ours = path.is_relative_to(layout.CONVERSATION) or path.is_relative_to(_RESPONSES)
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # a file system has no such name
        plain = False
    if not plain or not known or ours:
        raise InputError(f"a worker cannot write the file {name[:200]!r}")
    return name
