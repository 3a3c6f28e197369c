"""The events of a run: one class per line type of ``events.jsonl``.

A line is the envelope (``seq``, ``at``, ``attempt_id``, ``type``) plus the fields of its class. Durations are
seconds of the monotonic clock; ``at`` is UTC with milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import attrs
from attrs.validators import instance_of

from agentbench_core.values.record import AttemptRecord, RunManifest

_TEXT = instance_of(str)  # agents write some of these events, and an unreadable line would damage the file


@attrs.frozen(kw_only=True)
class ManifestWritten:
    """The content written to ``run.json``, initially and later, so that an edit of the file is detected."""

    manifest: RunManifest


@attrs.frozen(kw_only=True)
class RunStarted:
    """A run starts."""

    run_id: str
    attempts: int


@attrs.frozen(kw_only=True)
class RunResumed:
    """A run is resumed: numbers of recorded attempts and of attempts to make."""

    kept: int
    attempts: int


@attrs.frozen(kw_only=True)
class TaskStarted:
    """An attempt starts."""

    task_id: str
    repeat: int
    supersedes: str | None = None


@attrs.frozen(kw_only=True)
class SetupCommandStarted:
    """A setup command starts; ``cached``: it ran earlier, for an attempt that prepared the environment."""

    command: str
    cached: bool = False


@attrs.frozen(kw_only=True)
class SetupCommandFinished:
    """A setup command has ended."""

    command: str
    exit_code: int | None
    duration_sec: float
    cached: bool = False


@attrs.frozen(kw_only=True)
class BaselineStarted:
    """The failing command starts on the unchanged tree; ``cached``: it ran for another attempt."""

    command: str
    cached: bool = False


@attrs.frozen(kw_only=True)
class BaselineFinished:
    """The failing command has ended."""

    exit_code: int | None
    failed_as_expected: bool
    duration_sec: float
    cached: bool = False


@attrs.frozen(kw_only=True)
class AgentTurnStarted:
    """The agent starts a turn."""

    turn: int = attrs.field(validator=instance_of(int))


@attrs.frozen(kw_only=True)
class LLMRequest:
    """A request is about to be sent: exchange ``exchange`` of call ``call``, both from 1. On disk before it is sent.

    ``reserved_usd`` is the worst case of its cost, as far as prices are known. ``agent`` makes the call.
    """

    call: int
    exchange: int = 1
    agent: str = ""
    messages: int
    reserved_usd: float = 0.0


@attrs.frozen(kw_only=True)
class LLMResponse:
    """A request was answered. ``duration_sec`` is the whole call, including ``waited_sec`` caused by the provider.

    ``cost_usd`` is ``None`` if unknown: then the reservation counts.
    """

    call: int
    exchange: int = 1
    finish: str
    model: str
    served_by: str
    response_id: str = ""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float | None
    repaired: int = 0
    waited_sec: float = 0.0
    duration_sec: float


@attrs.frozen(kw_only=True)
class LLMFailed:
    """A request failed. If its cost is unknown, ``cost_usd`` is ``None`` and the reservation counts."""

    call: int
    exchange: int
    error: str
    message: str
    status: int | None = None
    served_by: str = ""
    response_id: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


@attrs.frozen(kw_only=True)
class ToolCallStarted:
    """A tool call starts as step number ``step``, made by ``agent``."""

    step: int
    agent: str = ""
    tool: str


@attrs.frozen(kw_only=True)
class ToolCallFinished:
    """A tool call has ended."""

    step: int
    tool: str
    ok: bool
    error_type: str
    duration_sec: float


@attrs.frozen(kw_only=True)
class PatchApplied:
    """Files were changed; the diff is at ``diff``, relative to the task's directory."""

    step: int
    files: tuple[str, ...]
    diff: str


@attrs.frozen(kw_only=True)
class Delegation:
    """An agent delegates to another one. ``parent`` and ``child`` are names unique within the attempt."""

    parent: str = attrs.field(validator=_TEXT)
    child: str = attrs.field(validator=_TEXT)
    role: str = attrs.field(validator=_TEXT)
    depth: int = attrs.field(validator=instance_of(int))


@attrs.frozen(kw_only=True)
class TestsStarted:
    """Scoring starts."""

    command: str


@attrs.frozen(kw_only=True)
class TestsFinished:
    """Scoring has ended."""

    exit_code: int | None
    passed: bool
    duration_sec: float


@attrs.frozen(kw_only=True)
class TaskFinished:
    """An attempt ended; contains its record, so that ``attempts.jsonl`` can be rebuilt from events.

    ``explanation`` is the reason for the outcome, as reported by the agent, the scorer or the harness.
    """

    record: AttemptRecord
    explanation: str = ""


@attrs.frozen(kw_only=True)
class RunFinished:
    """The last line of a run. ``status`` is ``completed``, ``interrupted`` or ``stopped``, with a ``reason``."""

    status: str
    attempts: int
    reason: str = ""


@attrs.frozen(kw_only=True)
class Warning_:  # noqa: N801 - the built-in name is taken; the line type is `warning`
    """A warning for readers of the results."""

    message: str = attrs.field(validator=_TEXT)


@attrs.frozen(kw_only=True)
class InfrastructureError:
    """A failure outside the agent's control."""

    message: str


Event = (
    ManifestWritten
    | RunStarted
    | RunResumed
    | TaskStarted
    | SetupCommandStarted
    | SetupCommandFinished
    | BaselineStarted
    | BaselineFinished
    | AgentTurnStarted
    | LLMRequest
    | LLMResponse
    | LLMFailed
    | ToolCallStarted
    | ToolCallFinished
    | PatchApplied
    | Delegation
    | TestsStarted
    | TestsFinished
    | TaskFinished
    | RunFinished
    | Warning_
    | InfrastructureError
)


def _word(cls: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__.rstrip("_")).lower()


EVENT_CLASSES: Mapping[str, Any] = {_word(cls): cls for cls in get_args(Event)}
"""Line type to class."""

_TYPES = {cls: word for word, cls in EVENT_CLASSES.items()}


def event_type(cls: type) -> str:
    """The ``type`` of a line: ``tool_call_started`` for :class:`ToolCallStarted`."""
    return _TYPES[cls]


@attrs.frozen(kw_only=True)
class EventEntry:
    """One line of ``events.jsonl``. ``attempt_id`` is ``None`` for events of the whole run."""

    seq: int
    at: str
    attempt_id: str | None
    event: Event
