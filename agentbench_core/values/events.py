"""The events of a run: one class per line type of ``events.jsonl``.

A line consists of the envelope (``seq``, ``at``, ``attempt_id``, ``type``) and the fields of its class. Durations are
in seconds, measured with the monotonic clock; ``at`` is UTC with milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import attrs
from attrs.validators import instance_of

from agentbench_core.values.record import AttemptRecord, MergedRun, RunManifest

_TEXT = instance_of(str)  # agents write some of these events, and an unreadable line would damage the file


@attrs.frozen(kw_only=True)
class ManifestWritten:
    """``run.json`` is written. The event contains its content, so that edits to the file are detected."""

    manifest: RunManifest  #: content of `run.json`


@attrs.frozen(kw_only=True)
class RunStarted:
    """A run starts."""

    run_id: str  #: id of the run
    attempts: int  #: number of attempts to run


@attrs.frozen(kw_only=True)
class RunResumed:
    """A run is resumed."""

    kept: int  #: number of attempts already recorded
    attempts: int  #: number of attempts still to run


@attrs.frozen(kw_only=True)
class ShardMerged:
    """The run of a shard was merged into this run; its events follow, except for events of the whole run."""

    run: MergedRun  #: that run


@attrs.frozen(kw_only=True)
class TaskStarted:
    """An attempt starts."""

    task_id: str  #: id of the task
    repeat: int  #: repetition of the task, from 1
    supersedes: str | None = None  #: id of the attempt that this one retries
    worker: str = ""  #: the worker that runs it; empty: the process that writes the run


@attrs.frozen(kw_only=True)
class SetupCommandStarted:
    """A setup command starts."""

    command: str  #: the shell command
    cached: bool = False  #: whether the command ran earlier, when the cached environment was prepared


@attrs.frozen(kw_only=True)
class SetupCommandFinished:
    """A setup command has ended."""

    command: str  #: the shell command
    exit_code: int | None  #: `None` if the command was killed
    duration_sec: float  #: seconds
    cached: bool = False  #: whether the command ran earlier, when the cached environment was prepared


@attrs.frozen(kw_only=True)
class BaselineStarted:
    """The failing command starts on the unchanged tree."""

    command: str  #: the shell command
    cached: bool = False  #: whether the result of another attempt is used


@attrs.frozen(kw_only=True)
class BaselineFinished:
    """The failing command has ended."""

    exit_code: int | None  #: `None` if the command was killed
    failed_as_expected: bool  #: whether it failed for the right reason
    duration_sec: float  #: seconds
    cached: bool = False  #: whether the result of another attempt is used


@attrs.frozen(kw_only=True)
class AgentTurnStarted:
    """The agent starts a turn."""

    turn: int = attrs.field(validator=instance_of(int))  #: number of the turn, from 1


@attrs.frozen(kw_only=True)
class LLMRequest:
    """A request is about to be sent. The event is on disk before the request is sent."""

    call: int  #: number of the call in the attempt, from 1
    exchange: int = 1  #: number of the exchange in the call, from 1
    agent: str = ""  #: the agent that makes the call
    messages: int  #: number of messages
    reserved_usd: float = 0.0  #: maximum cost of the request, as far as prices are known


@attrs.frozen(kw_only=True)
class LLMResponse:
    """A request was answered."""

    call: int  #: number of the call in the attempt, from 1
    exchange: int = 1  #: number of the exchange in the call, from 1
    finish: str  #: how the response ended
    model: str  #: the model that responded
    served_by: str  #: the upstream provider
    response_id: str = ""  #: the server's id of the response
    prompt_tokens: int  #: input tokens, including cached ones
    completion_tokens: int  #: output tokens
    cached_tokens: int  #: input tokens that were read from a cache
    cost_usd: float | None  #: US dollars; if unknown (`None`), the reservation counts
    repaired: int = 0  #: number of tool calls whose arguments had to be repaired
    waited_sec: float = 0.0  #: seconds of waiting caused by the provider
    duration_sec: float  #: seconds of the whole call, including `waited_sec`


@attrs.frozen(kw_only=True)
class LLMFailed:
    """A request failed."""

    call: int  #: number of the call in the attempt, from 1
    exchange: int  #: number of the exchange in the call, from 1
    error: str  #: kind of the failure, as in `FailedExchange`
    message: str  #: the server's explanation
    status: int | None = None  #: HTTP status code
    served_by: str = ""  #: the upstream provider
    response_id: str = ""  #: the server's id of the response
    prompt_tokens: int = 0  #: input tokens, including cached ones
    completion_tokens: int = 0  #: output tokens
    cached_tokens: int = 0  #: input tokens that were read from a cache
    cost_usd: float | None = None  #: US dollars; if unknown (`None`), the reservation counts


@attrs.frozen(kw_only=True)
class ToolCallStarted:
    """A tool call starts."""

    step: int  #: number of the tool call in the attempt, from 1
    agent: str = ""  #: the agent that makes the call
    tool: str  #: name of the tool
    arguments: str = ""  #: the arguments as one short line, with secrets redacted


@attrs.frozen(kw_only=True)
class ToolCallFinished:
    """A tool call has ended."""

    step: int  #: number of the tool call in the attempt, from 1
    tool: str  #: name of the tool
    ok: bool  #: whether the call succeeded
    error_type: str  #: short code of a failure
    duration_sec: float  #: seconds


@attrs.frozen(kw_only=True)
class PatchApplied:
    """A tool call has changed files."""

    step: int  #: number of the tool call in the attempt, from 1
    files: tuple[str, ...]  #: paths of the changed files
    diff: str  #: path of the diff, relative to the attempt's directory


@attrs.frozen(kw_only=True)
class Delegation:
    """An agent delegates to a sub-agent. Names are unique within the attempt."""

    parent: str = attrs.field(validator=_TEXT)  #: name of the agent that delegates
    child: str = attrs.field(validator=_TEXT)  #: name of the sub-agent
    role: str = attrs.field(validator=_TEXT)  #: role of the sub-agent
    depth: int = attrs.field(validator=instance_of(int))  #: 1 for a sub-agent of the attempt's agent


@attrs.frozen(kw_only=True)
class TestsStarted:
    """Scoring starts."""

    command: str  #: the passing command


@attrs.frozen(kw_only=True)
class TestsFinished:
    """Scoring has ended."""

    exit_code: int | None  #: `None` if the command was killed
    passed: bool  #: the verdict
    duration_sec: float  #: seconds


@attrs.frozen(kw_only=True)
class TaskFinished:
    """An attempt has ended. The event contains its record, so that ``attempts.jsonl`` can be rebuilt from events."""

    record: AttemptRecord  #: the record, as in `attempts.jsonl`
    explanation: str = ""  #: reason for the outcome, as reported by the agent, the scorer or the harness


@attrs.frozen(kw_only=True)
class RunFinished:
    """A run has ended. Further lines are added only if it is resumed or rebuilt."""

    status: str  #: `completed`, `interrupted` or `stopped`
    attempts: int  #: number of recorded attempts
    reason: str = ""  #: why the run ended early


@attrs.frozen(kw_only=True)
class Warning_:  # noqa: N801 - the built-in name is taken; the line type is `warning`
    """A warning for readers of the results."""

    message: str = attrs.field(validator=_TEXT)  #: human-readable text


@attrs.frozen(kw_only=True)
class InfrastructureError:
    """A failure outside the agent's control."""

    message: str  #: a description of the failure


Event = (
    ManifestWritten
    | RunStarted
    | RunResumed
    | ShardMerged
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
"""Event classes by line type."""

_TYPES = {cls: word for word, cls in EVENT_CLASSES.items()}


def event_type(cls: type) -> str:
    """The ``type`` of a line: ``tool_call_started`` for :class:`ToolCallStarted`."""
    return _TYPES[cls]


@attrs.frozen(kw_only=True)
class EventEntry:
    """One line of ``events.jsonl``."""

    seq: int  #: number of the line, from 1
    at: str  #: UTC with milliseconds, ISO 8601
    attempt_id: str | None  #: `None` for events of the whole run
    event: Event  #: the event; its class corresponds to the `type` of the line
