"""What agents, models and tools say to each other.

What plugins make is checked where it is made: a wrong type is then the fault of its maker, and never reaches a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from attrs.validators import and_, ge, in_, instance_of

from agentbench_core.schema import json_schema

_TEXT = instance_of(str)
_COUNT = and_(instance_of(int), ge(0))


def _amount(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{field.name} is {value!r}, which is no amount of money")


@attrs.frozen(kw_only=True)
class ToolSpec:
    """What a model is told about a tool. ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, description: str, arguments: type) -> ToolSpec:
        """The spec of a tool whose arguments are a frozen class with :func:`option` fields."""
        return cls(name=name, description=description, parameters=json_schema(arguments))


@attrs.frozen(kw_only=True)
class ToolCall:
    """One call that a model or a script asks for."""

    tool: str = attrs.field(validator=_TEXT)
    arguments: Mapping[str, Any]
    id: str = attrs.field(default="", validator=_TEXT)


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
    opaque: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Request:
    """One call of a model.

    Agents give messages and tools; the harness fills in what they leave out from the variant's ``model``
    settings. Sampling settings that are still ``None`` then are not sent.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens and US dollars of one or more model calls."""

    prompt_tokens: int = attrs.field(default=0, validator=_COUNT)
    completion_tokens: int = attrs.field(default=0, validator=_COUNT)
    cached_tokens: int = attrs.field(default=0, validator=_COUNT)
    cost_usd: float = attrs.field(default=0.0, validator=_amount)


@attrs.frozen(kw_only=True)
class Completion:
    """A model's answer. Refusal and truncation are answers, not errors."""

    message: Message = attrs.field(validator=instance_of(Message))
    finish: Literal["stop", "tool_calls", "length", "refusal", "context_overflow"] = attrs.field(
        default="stop", validator=in_(("stop", "tool_calls", "length", "refusal", "context_overflow"))
    )
    usage: Usage = attrs.field(default=Usage(), validator=instance_of(Usage))
    served_by: str = attrs.field(default="", validator=_TEXT)
    model: str = attrs.field(default="", validator=_TEXT)
