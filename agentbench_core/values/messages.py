"""Messages between agents, models and tools.

Values created by plugins are validated on creation, so a wrong type is reported where it occurs.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import attrs
from attrs.validators import and_, ge, in_, instance_of, optional

from agentbench_core.schema import json_schema

_TEXT = instance_of(str)
_COUNT = and_(instance_of(int), ge(0))
_DEEPEST = 100
"""Maximum nesting of containers in the arguments of a tool call."""
_OVERHEAD = 32
"""Number of bytes added for the markers that a provider puts around a message or a call."""

Effect = Literal["reads", "edits", "runs", ""]
Finish = Literal["stop", "tool_calls", "length", "refusal", "context_overflow", "empty", "rejected"]


def _amount(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{field.name} must be a non-negative number, got {value!r}")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _is_deep(value: object) -> bool:
    """Whether containers are nested deeper than :data:`_DEEPEST`, checked without recursion."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for container in level
            if isinstance(container, (Mapping, list, tuple))
            for inner in (container.values() if isinstance(container, Mapping) else container)
        ]
        if not level:
            return False
    return True


def _not_deep(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if _is_deep(value):
        raise ValueError(f"{field.name} is nested more than {_DEEPEST} levels deep")


def _json(value: object) -> str:
    """A value as ASCII JSON, never shorter than UTF-8; empty for an empty value. Unsupported ones become their repr."""
    return json.dumps(value, default=repr) if value else ""


@attrs.frozen(kw_only=True)
class ToolSpec:
    """The description of a tool for models, and its effect, which agents and the harness rely on.

    A tool without a declared effect may do anything: it is not available if a task forbids edits, leak checks treat its
    arguments as commands, and agents assume that any call may change files, even after it has ended.
    """

    name: str  #: name in calls: lowercase, such as `read_file`
    description: str  #: text for models: what the tool does, and when to use it
    parameters: Mapping[str, Any]
    """A JSON Schema object."""
    effect: Effect = attrs.field(default="", validator=in_(get_args(Effect)))
    """``reads``: changes no file and starts no process. ``edits``: changes files, only during the call. ``runs``: runs
    its input, which may change files even after the call. Empty: not declared.
    """

    @property
    def runs_commands(self) -> bool:
        """Whether the tool runs its ``command`` argument as a shell command, like the ``run`` tool.

        The results of such a tool have the fields ``exit_code``, ``stdout`` and ``stderr``.
        """
        return self.effect == "runs" and "command" in self.parameters.get("properties", {})

    @functools.cached_property
    def size(self) -> int:
        """Number of bytes that a model must read, an upper bound on the number of tokens."""
        return _OVERHEAD + len(self.name) + len(_json(self.description)) + len(_json(self.parameters))

    @staticmethod
    def of(name: str, description: str, arguments: type, effect: Effect = "") -> ToolSpec:
        """The spec of a tool whose arguments are a frozen class with :func:`option` fields."""
        return _spec_of(name, description, arguments, effect)


@functools.cache
def _spec_of(name: str, description: str, arguments: type, effect: Effect) -> ToolSpec:
    return ToolSpec(name=name, description=description, parameters=json_schema(arguments), effect=effect)


@attrs.frozen(kw_only=True)
class ToolCall:
    """One call requested by a model or a script."""

    tool: str = attrs.field(validator=_TEXT)  #: name of the tool
    arguments: Mapping[str, Any]  #: arguments by name, as in the tool's `parameters`
    id: str = attrs.field(default="", validator=_TEXT)  #: id given by the model; the result refers to it
    problem: str = attrs.field(default="", validator=_TEXT)
    """Why the arguments are unreadable; if set, the call is not made, and its result contains this text."""

    def __attrs_post_init__(self) -> None:
        """Drop arguments that are nested too deeply to be written; models can send such arguments."""
        if _is_deep(self.arguments):
            object.__setattr__(self, "arguments", {})
            object.__setattr__(self, "problem", f"the arguments are nested more than {_DEEPEST} levels deep")


@attrs.frozen(kw_only=True)
class ToolResult:
    """The result of a tool call: ``fields`` on success, a code and a message on failure."""

    ok: bool = attrs.field(validator=instance_of(bool))  #: whether the call succeeded
    fields: Mapping[str, Any] = attrs.field(factory=dict)  #: the values shown to the agent, by name
    error_type: str = attrs.field(default="", validator=_TEXT)  #: short code of a failure, such as `not_found`
    error_message: str = attrs.field(default="", validator=_TEXT)  #: explanation of a failure, for the agent

    @classmethod
    def success(cls, **fields: Any) -> ToolResult:
        """A successful result with these fields."""
        return cls(ok=True, fields=fields)

    @classmethod
    def failure(cls, error_type: str, error_message: str) -> ToolResult:
        """A failure that the agent can read and act on."""
        return cls(ok=False, error_type=error_type, error_message=error_message)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]  #: author; `tool` for the result of a tool call
    content: str = attrs.field(default="", validator=_TEXT)  #: text of the message
    tool_calls: tuple[ToolCall, ...] = ()  #: calls requested by the model
    tool_call_id: str = ""  #: for the role `tool`: id of the call
    opaque: Mapping[str, Any] = attrs.field(factory=dict, validator=_not_deep)
    """Data that the provider requires to be sent back unchanged, such as reasoning details."""

    @functools.cached_property
    def size(self) -> int:
        """Number of bytes that a model must read, including markers: an upper bound on the number of tokens."""
        calls = sum(
            _OVERHEAD + _bytes(call.tool) + len(_json(call.arguments)) + _bytes(call.id) for call in self.tool_calls
        )
        return _OVERHEAD + _bytes(self.content) + _bytes(self.tool_call_id) + calls + len(_json(self.opaque))


@attrs.frozen(kw_only=True)
class Request:
    """One model call.

    Agents set messages and tools; the harness fills in missing fields from the variant's ``model`` settings. Sampling
    settings that are still ``None`` are not sent.
    """

    messages: tuple[Message, ...]  #: the conversation so far, oldest first
    tools: tuple[ToolSpec, ...] = ()  #: tools that the model may call
    model: str = attrs.field(default="", validator=_TEXT)  #: name used by the provider
    max_tokens: int | None = attrs.field(default=None, validator=optional(and_(instance_of(int), ge(1))))
    """Maximum output in tokens."""
    temperature: float | None = attrs.field(default=None, validator=optional(_amount))  #: sampling temperature
    top_p: float | None = attrs.field(default=None, validator=optional(_amount))  #: nucleus sampling, 0 to 1


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens and US dollars of one or more model calls.

    If the server does not report the cost, ``cost_usd`` is ``None`` and the cost is computed from the prices in
    :class:`ModelFacts`; without prices or tokens, the maximum cost counts against budgets.
    """

    prompt_tokens: int = attrs.field(default=0, validator=_COUNT)  #: input tokens, including cached ones
    completion_tokens: int = attrs.field(default=0, validator=_COUNT)  #: output tokens
    cached_tokens: int = attrs.field(default=0, validator=_COUNT)  #: input tokens that were read from a cache
    cost_usd: float | None = attrs.field(default=None, validator=optional(_amount))  #: US dollars; `None`: unknown


@attrs.frozen(kw_only=True)
class Completion:
    """A model's response. Refusals and truncated responses are responses, not errors."""

    message: Message = attrs.field(validator=instance_of(Message))  #: the model's message: text, tool calls
    finish: Finish = attrs.field(default="stop", validator=in_(get_args(Finish)))
    """How it ended; ``context_overflow``: the request was too long, ``empty``: no text or calls, even after retries,
    ``rejected``: the server rejected a forwarded request as invalid.
    """
    usage: Usage | None = attrs.field(default=None, validator=optional(instance_of(Usage)))
    """Usage and cost; if unknown (``None``), the maximum counts against budgets."""
    served_by: str = attrs.field(default="", validator=_TEXT)
    """The upstream provider that served the response."""
    model: str = attrs.field(default="", validator=_TEXT)
    """The model that responded, as named by the server."""
    response_id: str = attrs.field(default="", validator=_TEXT)
    """The server's id of this response."""
    repaired: int = attrs.field(default=0, validator=_COUNT)
    """Number of tool calls whose arguments were invalid JSON but could be repaired."""
    native: str = attrs.field(default="", validator=_TEXT)
    """For forwarded requests: the file with the response as sent, in the attempt's directory; set by the harness."""


@attrs.frozen(kw_only=True)
class FailedExchange:
    """A failed request that a server received, or may have received.

    ``error`` is one of ``rate_limited``, ``overloaded``, ``transient``, ``timeout``, ``protocol``, ``auth``,
    ``credits`` and ``invalid_request``, or a provider-specific word.
    """

    error: str = attrs.field(validator=_TEXT)  #: kind of failure, as listed above
    message: str = attrs.field(default="", validator=_TEXT)  #: the server's explanation
    status: int | None = attrs.field(default=None, validator=optional(instance_of(int)))  #: HTTP status code
    usage: Usage | None = attrs.field(default=None, validator=optional(instance_of(Usage)))
    """Usage and cost; if unknown (``None``), the maximum counts against budgets."""
    served_by: str = attrs.field(default="", validator=_TEXT)  #: the upstream provider
    response_id: str = attrs.field(default="", validator=_TEXT)  #: the server's id of this response


@attrs.frozen(kw_only=True)
class ModelFacts:
    """Facts about a model, known before a run. ``None`` means unknown."""

    context_tokens: int | None = attrs.field(default=None, validator=optional(_COUNT))
    """The context window in tokens: input and output of one call."""
    answer_tokens: int | None = attrs.field(default=None, validator=optional(_COUNT))
    """The maximum output of one call in tokens; the harness lowers it to the maximum that the variant requests."""
    usd_per_million_input: float | None = attrs.field(default=None, validator=optional(_amount))  #: price in USD
    usd_per_million_output: float | None = attrs.field(default=None, validator=optional(_amount))  #: price in USD
    usd_per_request: float = attrs.field(default=0.0, validator=_amount)  #: USD per call, added to token costs
    known: Mapping[str, str] = attrs.field(factory=dict)
    """Other facts worth recording, such as the version of a price list."""
    warnings: tuple[str, ...] = ()
    """Notes for the user before the run starts."""


@attrs.frozen(kw_only=True)
class ConversationEntry:
    """One line of ``conversation.jsonl``: the parts of an answered call that are new since the previous line."""

    call: int  #: number of the call in the attempt, from 1
    agent: str = ""  #: the agent that made the call
    model: str = ""  #: the requested model
    max_tokens: int | None = None  #: requested maximum output in tokens
    temperature: float | None = None  #: requested sampling temperature
    top_p: float | None = None  #: requested nucleus sampling
    tools: tuple[ToolSpec, ...] | None = None  #: available tools; `None`: unchanged since the agent's previous line
    since: int  #: number of messages kept from the agent's previous line and its response; 0: new conversation
    messages: tuple[Message, ...]  #: messages of the request after the first `since`
    completion: Completion  #: the response


def requests(records: Iterable[ConversationEntry]) -> Iterator[tuple[str, Request, Completion]]:
    """The agent, the complete request and the response of each call, in the order of the lines."""
    sent: dict[str, tuple[Message, ...]] = {}
    tools: dict[str, tuple[ToolSpec, ...]] = {}
    for record in records:
        messages = sent.get(record.agent, ())[: record.since] + record.messages
        sent[record.agent] = (*messages, record.completion.message)
        if record.tools is not None:
            tools[record.agent] = record.tools
        request = Request(
            messages=messages,
            tools=tools.get(record.agent, ()),
            model=record.model,
            max_tokens=record.max_tokens,
            temperature=record.temperature,
            top_p=record.top_p,
        )
        yield record.agent, request, record.completion
