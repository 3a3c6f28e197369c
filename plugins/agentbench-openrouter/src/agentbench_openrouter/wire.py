"""A request as JSON, with a constant order of keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_openrouter.addresses import host, is_openrouter
from agentbench_openrouter.options import OpenRouterOptions

ECHOED = ("reasoning_details", "reasoning_content")
"""Response fields that must be sent back unchanged with the same message."""

DEFAULT_ANSWER_TOKENS = 4096
"""The default output limit: without a limit, servers reserve credit for the longest possible response."""

_LEAST_CAP = 256
"""Long requests do not lower the limit below this: fewer tokens are useless, and the free space is an estimate."""

_BYTES_PER_TOKEN = 3
"""A low estimate: code and prose have about 4 bytes per token, and many writing systems have more."""

_DEEPEST = 100
"""Maximum nesting of fields that are sent back."""

_ROUTING = (
    *("provider_order", "provider_only", "provider_ignore", "allow_fallbacks", "require_parameters", "quantizations"),
    *("data_collection", "provider_sort"),
)
"""The options for OpenRouter's choice of a provider."""

_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


@attrs.frozen(kw_only=True)
class Dialect:
    """The variant of the API that a server supports."""

    openrouter: bool
    """Whether the server supports the fields specific to OpenRouter."""
    cap: Literal["max_completion_tokens", "max_tokens"]

    @classmethod
    def of(cls, options: OpenRouterOptions) -> Dialect:
        """The configured dialect, or the one that the host uses. Many small servers only support ``max_tokens``."""
        auto = options.dialect == "auto"
        openrouter = is_openrouter(options.base_url) if auto else options.dialect == "openrouter"
        if options.max_tokens_field != "auto":
            return cls(openrouter=openrouter, cap=options.max_tokens_field)
        new = openrouter or host(options.base_url) == "api.openai.com"
        return cls(openrouter=openrouter, cap="max_completion_tokens" if new else "max_tokens")


def body(
    request: Request,
    options: OpenRouterOptions,
    *,
    session: str = "",
    answer_cap: int | None = None,
    window: int | None = None,
    halved: bool = False,
    max_price: Mapping[str, float] | None = None,
) -> bytes:
    """The body of a completion request.

    Args:
        request: sampling settings that are ``None`` are omitted, so the provider's defaults apply.
        options: routing and reasoning.
        session: groups requests; OpenRouter routes a session to one provider, whose cache then helps.
        answer_cap: the model's maximum number of output tokens, if known.
        window: the context window in tokens, if known. The output limit is lowered to fit into it, since many
            servers refuse a request whose output might not fit.
        halved: use half of the output limit.
        max_price: US dollars per million tokens (``prompt``, ``completion``); excludes more expensive providers.
    """
    dialect = Dialect.of(options)
    cap = min(n for n in (request.max_tokens or DEFAULT_ANSWER_TOKENS, answer_cap) if n)
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": messages(request.messages),
        "tools": [_tool(spec) for spec in request.tools] or None,
        dialect.cap: cap,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stream": False,
    }
    if dialect.openrouter:
        fields |= {
            "reasoning": {"effort": options.reasoning_effort} if options.reasoning_effort else None,
            "provider": _routing(options) | ({"max_price": dict(max_price)} if max_price else {}) or None,
            # Otherwise models with small context windows silently get a prompt with its middle removed.
            "plugins": [{"id": "context-compression", "enabled": False}],
            "session_id": session[:256] or None,
        }
    else:
        fields["reasoning_effort"] = options.reasoning_effort
    fields = {name: value for name, value in fields.items() if value is not None}
    encoded = _encoded(fields)
    available = max(int(window - len(encoded) / _BYTES_PER_TOKEN), _LEAST_CAP) if window else cap
    fitting = min(cap, available)
    if halved:
        fitting = max(fitting // 2, min(_LEAST_CAP, fitting))
    return encoded if fitting == cap else _encoded({**fields, dialect.cap: fitting})


def not_forwarded(options: OpenRouterOptions) -> tuple[str, ...]:
    """The names of options that are set, but only affect requests that are built here."""
    names = ("reasoning_effort", *(_ROUTING if Dialect.of(options).openrouter else ()))
    defaults = OpenRouterOptions()
    return tuple(name for name in names if getattr(options, name) != getattr(defaults, name))


def messages(conversation: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the required form: consecutive system messages are merged, empty responses omitted, and call ids made
    unique."""
    written: list[dict[str, Any]] = []
    ids = _Ids(conversation)
    for number, message in enumerate(conversation):
        if message.role == "system" and written and written[-1]["role"] == "system":
            written[-1]["content"] += f"\n\n{message.content}"
        elif message.role == "assistant":
            written.extend(_answer(message, ids.of_turn(number, message)))
        elif message.role == "tool":
            written.append({"role": "tool", "tool_call_id": ids.of_result(message), "content": message.content})
        else:
            written.append({"role": message.role, "content": message.content})
    return written


def _answer(message: Message, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not message.content and not message.tool_calls:
        return
    written: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.tool_calls:
        calls = zip(message.tool_calls, ids, strict=True)
        written["tool_calls"] = [_call(call, call_id) for call, call_id in calls]
    yield written | {name: message.opaque[name] for name in ECHOED if name in message.opaque}


def _call(call: ToolCall, call_id: str) -> dict[str, Any]:
    # An unreadable call is sent back without arguments: providers refuse a history that contains broken JSON.
    try:
        arguments = "{}" if call.problem else _text(dict(call.arguments))
    except RecursionError:
        arguments = "{}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.tool)[:64] or "unnamed"
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters = dict(spec.parameters)
    if parameters.get("type") != "object":
        parameters = {**_NO_ARGUMENTS, **parameters, "type": "object"}
    function = {"name": spec.name, "description": spec.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _routing(options: OpenRouterOptions) -> dict[str, Any]:
    wanted = {
        "order": list(options.provider_order),
        "allow_fallbacks": None if options.allow_fallbacks else False,
        "require_parameters": options.require_parameters or None,
        "data_collection": options.data_collection,
        "only": list(options.provider_only),
        "ignore": list(options.provider_ignore),
        "quantizations": list(options.quantizations),
        "sort": options.provider_sort,
    }
    return {name: value for name, value in wanted.items() if value is not None and value != []}


class _Ids:
    """Call ids in requests. Some models restart numbering in every turn, and some omit ids."""

    def __init__(self, conversation: Sequence[Message]) -> None:
        self._ids_given = {call.id for message in conversation for call in message.tool_calls}
        self._used: set[str] = set()
        self._open: list[tuple[str, str]] = []

    def of_turn(self, number: int, message: Message) -> list[str]:
        """The ids of a message's calls; empty or repeated ones are replaced."""
        self._open = [
            (call.id, self._unique(call.id, f"call_{number}_{at}")) for at, call in enumerate(message.tool_calls)
        ]
        return [call_id for _, call_id in self._open]

    def of_result(self, message: Message) -> str:
        """The id of the call that this result belongs to: the turn's next call that had the result's id."""
        for at, (before, now) in enumerate(self._open):
            if before == message.tool_call_id:
                del self._open[at]
                return now
        return message.tool_call_id

    def _unique(self, wanted: str, instead: str) -> str:
        result = wanted
        if not wanted.strip() or wanted in self._used:
            while instead in self._ids_given or instead in self._used:
                instead += "_"
            result = instead
        self._used.add(result)
        return result


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return _text(fields).encode("utf-8", "replace")  # lone surrogates cannot be encoded


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"))


def finite(value: Any, depth: int = 0) -> Any:
    """Plain data with invalid JSON numbers replaced by null. Raises RecursionError if it is nested too deeply."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, Mapping):
        return {name: finite(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner, depth + 1) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
