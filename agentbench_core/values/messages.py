"""What agents, models and tools say to each other.

What plugins make is checked where it is made: a wrong type is then the fault of its maker, and never reaches a record.
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
"""Containers within containers in the arguments of a tool call."""
_OVERHEAD = 32
"""Bytes that stand for the marks which a provider puts around a message or a call."""

Effect = Literal["reads", "edits", "runs", ""]
Finish = Literal["stop", "tool_calls", "length", "refusal", "context_overflow", "empty"]
"""How an answer ended. ``context_overflow``: the request was too long. ``empty``: neither words nor calls, again and
again."""


def _amount(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{field.name} is {value!r}: expected a number of at least 0")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _is_deep(value: object) -> bool:
    """Whether containers are nested deeper than :data:`_DEEPEST`; without recursion."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, (Mapping, list, tuple))
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def _not_deep(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if _is_deep(value):
        raise ValueError(f"{field.name} is nested more than {_DEEPEST} deep")


def _json(value: object) -> str:
    """As JSON in ASCII, which is never shorter than UTF-8. Odd values are for somebody else to refuse."""
    return json.dumps(value, default=repr) if value else ""


@attrs.frozen(kw_only=True)
class ToolSpec:
    """What a model is told about a tool, and its effect, which agents and the harness go by.

    A tool whose effect is not declared may do anything: it is not offered where a task forbids edits, its arguments
    are read as commands when leaks are looked for, and agents take files to be changed after any call of it, and to be
    changing still when it has ended.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema object."""
    effect: Effect = attrs.field(default="", validator=in_(get_args(Effect)))
    """``reads``: changes no file and starts nothing. ``edits``: changes files, all of them before the call ends.
    ``runs``: runs what it is given, which may change files, also after the call has ended. Empty: not declared.
    """

    @property
    def runs_commands(self) -> bool:
        """Whether it runs a shell command, its argument ``command``, as the tool ``run`` does.

        Such a result has the fields ``exit_code``, ``stdout`` and ``stderr``.
        """
        return self.effect == "runs" and "command" in self.parameters.get("properties", {})

    @functools.cached_property
    def size(self) -> int:
        """Bytes that a model has to read; no tokenizer makes more tokens of them."""
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
    """One call that a model or a script asks for."""

    tool: str = attrs.field(validator=_TEXT)
    arguments: Mapping[str, Any]
    id: str = attrs.field(default="", validator=_TEXT)
    problem: str = attrs.field(default="", validator=_TEXT)
    """Why the arguments could not be read: the call is not made, and its result says this."""

    def __attrs_post_init__(self) -> None:
        """Leave out arguments that are nested so deep that they could not be written down: they are the model's."""
        if _is_deep(self.arguments):
            object.__setattr__(self, "arguments", {})
            object.__setattr__(self, "problem", f"the arguments are nested more than {_DEEPEST} deep")


@attrs.frozen(kw_only=True)
class ToolResult:
    """What came of a tool call: ``fields`` on success, a code and a message on failure."""

    ok: bool = attrs.field(validator=instance_of(bool))
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    error_type: str = attrs.field(default="", validator=_TEXT)
    error_message: str = attrs.field(default="", validator=_TEXT)

    @classmethod
    def success(cls, **fields: Any) -> ToolResult:
        """A result with its fields."""
        return cls(ok=True, fields=fields)

    @classmethod
    def failure(cls, error_type: str, error_message: str) -> ToolResult:
        """A refusal that the agent can read and act on."""
        return cls(ok=False, error_type=error_type, error_message=error_message)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation.

    ``opaque`` holds what a provider wants echoed verbatim (such as reasoning details); nobody else reads it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = attrs.field(default="", validator=_TEXT)
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    opaque: Mapping[str, Any] = attrs.field(factory=dict, validator=_not_deep)

    @functools.cached_property
    def size(self) -> int:
        """Bytes that a model has to read; no tokenizer makes more tokens of them, its own marks included."""
        calls = sum(
            _OVERHEAD + _bytes(call.tool) + len(_json(call.arguments)) + _bytes(call.id) for call in self.tool_calls
        )
        return _OVERHEAD + _bytes(self.content) + _bytes(self.tool_call_id) + calls + len(_json(self.opaque))


@attrs.frozen(kw_only=True)
class Request:
    """One call of a model.

    Agents give messages and tools; the harness fills in what they leave out from the variant's ``model``
    settings. Sampling settings that are still ``None`` then are not sent.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    model: str = attrs.field(default="", validator=_TEXT)
    max_tokens: int | None = attrs.field(default=None, validator=optional(and_(instance_of(int), ge(1))))
    temperature: float | None = attrs.field(default=None, validator=optional(_amount))
    top_p: float | None = attrs.field(default=None, validator=optional(_amount))


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens and US dollars of one or more model calls.

    ``cost_usd`` is ``None`` where the server does not tell: then the tokens count by the prices of :class:`ModelFacts`,
    and without prices or tokens the worst case counts against budgets.
    """

    prompt_tokens: int = attrs.field(default=0, validator=_COUNT)
    completion_tokens: int = attrs.field(default=0, validator=_COUNT)
    cached_tokens: int = attrs.field(default=0, validator=_COUNT)
    cost_usd: float | None = attrs.field(default=None, validator=optional(_amount))


@attrs.frozen(kw_only=True)
class Completion:
    """A model's answer. Refusal and truncation are answers, not errors."""

    message: Message = attrs.field(validator=instance_of(Message))
    finish: Finish = attrs.field(default="stop", validator=in_(get_args(Finish)))
    usage: Usage | None = attrs.field(default=None, validator=optional(instance_of(Usage)))
    """What it used and cost; ``None`` where nobody says, and then the worst case counts against budgets."""
    served_by: str = attrs.field(default="", validator=_TEXT)
    """Who answered behind the provider."""
    model: str = attrs.field(default="", validator=_TEXT)
    """The model that answered, as the server names it."""
    response_id: str = attrs.field(default="", validator=_TEXT)
    """What the server calls this answer."""
    repaired: int = attrs.field(default=0, validator=_COUNT)
    """Tool calls whose arguments were not quite JSON, and were read nevertheless."""


@attrs.frozen(kw_only=True)
class FailedExchange:
    """A request that a server saw, or may have seen, and that gave no answer.

    ``error`` is one of ``rate_limited``, ``overloaded``, ``transient``, ``timeout``, ``protocol``, ``auth``,
    ``credits`` and ``invalid_request``, or a provider's own word.
    """

    error: str = attrs.field(validator=_TEXT)
    message: str = attrs.field(default="", validator=_TEXT)
    status: int | None = attrs.field(default=None, validator=optional(instance_of(int)))
    usage: Usage | None = attrs.field(default=None, validator=optional(instance_of(Usage)))
    """What it cost; ``None`` where nobody knows, and then the worst case counts against budgets."""
    served_by: str = attrs.field(default="", validator=_TEXT)
    response_id: str = attrs.field(default="", validator=_TEXT)


@attrs.frozen(kw_only=True)
class ModelFacts:
    """What is known of a model before a run. ``None`` means that nobody says."""

    context_tokens: int | None = attrs.field(default=None, validator=optional(_COUNT))
    """How much it can read and write in one call."""
    answer_tokens: int | None = attrs.field(default=None, validator=optional(_COUNT))
    """The most that it writes in one call; the harness fills in what the variant asks for."""
    usd_per_million_input: float | None = attrs.field(default=None, validator=optional(_amount))
    usd_per_million_output: float | None = attrs.field(default=None, validator=optional(_amount))
    usd_per_request: float = attrs.field(default=0.0, validator=_amount)
    known: Mapping[str, str] = attrs.field(factory=dict)
    """What else is worth recording, such as the version of a list that it comes from."""
    warnings: tuple[str, ...] = ()
    """What a user should hear before the run begins."""


@attrs.frozen(kw_only=True)
class ConversationEntry:
    """One line: an answered call, with what is new since the line before of the same agent.

    ``since`` says how many messages of the request are those of that agent's line before, its answer included; 0 when
    it began anew. ``tools`` is ``None`` where they are those of that agent's line before.
    """

    call: int
    agent: str = ""
    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: tuple[ToolSpec, ...] | None = None
    since: int
    messages: tuple[Message, ...]
    completion: Completion


def requests(records: Iterable[ConversationEntry]) -> Iterator[tuple[str, Request, Completion]]:
    """Who asked, each answered request as a whole, and its answer, in the order of the lines."""
    told: dict[str, tuple[Message, ...]] = {}
    tools: dict[str, tuple[ToolSpec, ...]] = {}
    for record in records:
        messages = told.get(record.agent, ())[: record.since] + record.messages
        told[record.agent] = (*messages, record.completion.message)
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
