"""Messages (Anthropic): the forwarded request, and its parsed copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentbench_bridge.protocols.admission import Limits, ModelMap
from agentbench_bridge.protocols.checks import (
    BASE64,
    HINTS,
    HOSTED,
    OWN_MCP,
    TOKENS,
    TOOL_NAME,
    Check,
    Review,
    any_object,
    anything,
    boolean,
    cache_control,
    check_fields,
    each,
    either,
    matching,
    media,
    number,
    one_of,
    record,
    removed,
    schema,
    shown,
    tagged,
    text,
    whole,
    without_nulls,
)  # fmt: skip
from agentbench_bridge.protocols.common import (
    Parsed,
    bare,
    call,
    keep_tools,
    limit_output,
    limit_thinking,
    map_model,
    message,
    objects,
    parts,
    request,
    set_sampling,
    spec,
    string,
    unreadable,
    without_tools,
)  # fmt: skip
from agentbench_core import Message, Request, ToolSpec

BETAS = frozenset(
    {
        "claude-code-20250219",
        "context-management-2025-06-27",
        "effort-2025-11-24",
        "extended-cache-ttl-2025-04-11",
        "fine-grained-tool-streaming-2025-05-14",
        "inline-tools-2026-09-15",
        "interleaved-thinking-2025-05-14",
        "advanced-tool-use-2025-11-20",
        "mid-conversation-system-2026-04-07",
        "mid-conversation-tool-changes-2026-07-01",
        "output-128k-2025-02-19",
        "per-turn-control-2026-07-01",
        "prompt-caching-2024-07-31",
        "prompt-caching-scope-2026-01-05",
        "redact-thinking-2026-02-12",
        "structured-outputs-2025-11-13",
        "structured-outputs-2025-12-15",
        "task-budgets-2026-03-13",
        "thinking-display-updates-2026-08-18",
        "thinking-token-count-2026-05-13",
        "token-counting-2024-11-01",
        "token-efficient-tools-2025-02-19",
    }
)
"""Values of ``anthropic-beta`` that neither make the provider run tools or load data, nor change prices."""

TEXTS: Mapping[str, str] = {"text": "text"}
_CACHED: Mapping[str, Check] = {"cache_control": cache_control}
_MEDIA = matching(
    r"(?:image/(?:png|jpeg|gif|webp)|application/pdf|text/plain)", "an image, PDF or plain-text media type"
)
_TEXT = record({"type": text, "text": text}, {**_CACHED, "citations": removed})
_INLINE: Mapping[str, Check] = {
    "base64": record({"type": text, "media_type": _MEDIA, "data": BASE64}),
    "text": record({"type": text, "media_type": _MEDIA, "data": text}),
}
_IMAGE = media(record({"type": text, "source": tagged({"base64": _INLINE["base64"]})}, _CACHED))
_DOCUMENT = media(
    record(
        {
            "type": text,
            "source": tagged(
                {
                    **_INLINE,
                    "content": record(
                        {"type": text, "content": either(text, each(tagged({"text": _TEXT, "image": _IMAGE})))}
                    ),
                }
            ),
        },
        {**_CACHED, "title": text, "context": text, "citations": record({"enabled": boolean})},
    )
)
_REFERENCE = record({"type": text}, {"tool_name": text, "name": text, **_CACHED})
_RESULT: Mapping[str, Check] = {
    "text": _TEXT, "image": _IMAGE, "document": _DOCUMENT, "tool_reference": _REFERENCE,
}  # fmt: skip


def _definition(value: Any, where: str, review: Review) -> None:
    """The definition of a tool inside a message."""
    if not _kept([value], where, review):
        review.refuse(f"{where} defines a tool that is run by the provider", hosted=True)


_CHANGE = record(
    {
        "type": text,
        "tool": tagged(
            {"tool_reference": _REFERENCE, "tool_definition": record({"type": text, "definition": _definition})}
        ),
    },
    _CACHED,
)
_BLOCKS = tagged(
    {
        "text": _TEXT,
        "image": _IMAGE,
        "document": _DOCUMENT,
        "thinking": record({"type": text}, {"thinking": text, "signature": text, "display": text, **_CACHED}),
        "redacted_thinking": record({"type": text, "data": text}, _CACHED),
        "tool_use": record(
            {"type": text, "id": text, "name": text, "input": any_object},
            {**_CACHED, "caller": tagged({"direct": record({"type": text})})},
        ),
        "tool_result": record(
            {"type": text, "tool_use_id": text},
            {**_CACHED, "content": either(text, each(tagged(_RESULT))), "is_error": boolean},
        ),
        "tool_addition": _CHANGE,
        "tool_removal": _CHANGE,
    }
)
_FORMAT = record({"type": one_of("json_schema"), "schema": schema}, {"name": text})
_BUDGET = record({"type": one_of("tokens"), "total": TOKENS}, {"remaining": whole(0, 10_000_000)})
_OUTPUT = record({}, {"effort": text, "format": _FORMAT, "task_budget": _BUDGET})
_MESSAGE = record(
    {"role": one_of("user", "assistant", "system"), "content": either(text, each(_BLOCKS))}, {"output_config": _OUTPUT}
)


def _keep(value: Any, where: str, review: Review) -> None:
    """The thoughts to keep: a word, or a number of turns."""
    (text if isinstance(value, str) else _EDIT_SIZE)(value, where, review)


_EDIT_SIZE = record({"type": text, "value": whole(0, 10_000_000)})
_EDITS = tagged(
    {
        "clear_thinking_20251015": record({"type": text}, {"keep": _keep}),
        "clear_tool_uses_20250919": record(
            {"type": text},
            {
                "trigger": _EDIT_SIZE, "keep": _EDIT_SIZE, "clear_at_least": _EDIT_SIZE,
                "clear_tool_inputs": either(boolean, each(text)), "exclude_tools": each(text),
            },
        ),
    }
)  # fmt: skip
_OWN_TOOL = record(
    {"name": TOOL_NAME, "input_schema": schema},
    {
        **_CACHED, "type": one_of("custom"), "description": text, "strict": boolean, "defer_loading": boolean,
        "eager_input_streaming": boolean, "input_examples": each(any_object),
        "allowed_callers": each(one_of("direct")),
    },
)  # fmt: skip
_CLIENT_TOOL = record(
    {"type": text, "name": TOOL_NAME},
    {
        **_CACHED, "max_characters": TOKENS, "display_width_px": whole(1, 100_000),
        "display_height_px": whole(1, 100_000), "display_number": whole(0, 100), "strict": boolean,
        "defer_loading": boolean, "enable_zoom": boolean,
        "allowed_callers": each(one_of("direct")),
    },
)  # fmt: skip
_CLIENT_TYPES = re.compile(r"(?:bash|text_editor|computer|memory)_20[0-9]{6}")
"""Types of tools that the provider defines and the agent runs."""
_FIELDS: Mapping[str, Check] = {
    "model": text,
    "messages": each(_MESSAGE),
    "system": either(text, each(tagged({"text": _TEXT}))),
    "max_tokens": TOKENS,
    "metadata": record({}, {"user_id": text}),
    "stop_sequences": each(text),
    "stream": boolean,
    "temperature": number(0, 1),
    "top_p": number(0, 1),
    "top_k": whole(0, 1_000_000),
    "tools": anything,
    "tool_choice": anything,
    "thinking": tagged(
        {
            "enabled": record({"type": text, "budget_tokens": TOKENS}, {"display": text}),
            "adaptive": record({"type": text}, {"display": text}),
            "disabled": record({"type": text}),
        }
    ),
    "context_management": record({}, {"edits": each(_EDITS)}),
    "output_config": _OUTPUT,
    "output_format": _FORMAT,
    "cache_control": cache_control,
}
_COUNTED = frozenset(_FIELDS) - {"max_tokens", "metadata", "stream", "stop_sequences", "temperature", "top_p", "top_k"}


def admit(
    body: dict[str, Any], review: Review, *, models: ModelMap, limits: Limits, counts: bool = False
) -> tuple[dict[str, Any], Request]:
    """The request to send, and its parsed copy. Raises RefusedError.

    Args:
        body: the agent's request.
        review: receives the removed parts.
        models: the model map.
        limits: the variant's settings.
        counts: whether the request only counts tokens.
    """
    body = without_nulls(body)
    fields = {name: check for name, check in _FIELDS.items() if name in _COUNTED} if counts else _FIELDS
    check_fields(body, fields, HINTS, review)
    map_model(body, models, review)
    keep_tools(body, review, _kept)
    _check_choice(body, review)
    if not body.get("messages"):
        review.refuse("messages must contain at least one message")
    review.close()
    without_tools(body, review, demands=lambda choice: choice["type"] not in ("auto", "none"))
    review.close()
    if counts:
        return body, _parsed(body, 1)
    limit_output(body, ("max_tokens",), limits, review)
    limit_thinking(body, "thinking", "budget_tokens", body["max_tokens"], review)
    set_sampling(body, limits)
    review.close()
    return body, _parsed(body, body["max_tokens"])


def betas(header: str, review: Review) -> str:
    """The values of ``anthropic-beta`` that are forwarded."""
    asked = [value.strip() for value in header.split(",") if value.strip()]
    for value in asked:
        if value not in BETAS:
            review.change(f"anthropic-beta: removed {shown(value)}, which is not on the allow list")
    return ",".join(value for value in asked if value in BETAS)


def _kept(tools: list[Any], where: str, review: Review) -> list[Any]:
    """The tools that the agent runs itself."""
    kept = []
    for index, tool in enumerate(tools):
        place = f"{where}[{index}]"
        if not isinstance(tool, dict):
            review.refuse(f"{place} must be an object, not {shown(tool)}", hosted=True)
            continue
        kind = "custom" if tool.get("type") is None else tool["type"]
        if not isinstance(kind, str) or kind.startswith("mcp"):
            review.refuse(f"{place} is of type {shown(kind)}: {OWN_MCP}", hosted=True)
        elif kind == "custom":
            _OWN_TOOL(tool, place, review)
            kept.append(tool)
        elif _CLIENT_TYPES.fullmatch(kind):
            _CLIENT_TOOL(tool, place, review)
            kept.append(tool)
        else:
            review.change(f"{where}: removed a tool of type {shown(kind)}, which is run by the provider")
    return kept


def _check_choice(body: Mapping[str, Any], review: Review) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    single = {"disable_parallel_tool_use": boolean}
    tagged(
        {
            "auto": record({"type": text}, single),
            "any": record({"type": text}, single),
            "none": record({"type": text}),
            "tool": record({"type": text, "name": text}, single),
        }
    )(choice, "tool_choice", review)
    if not isinstance(choice, dict) or choice.get("type") != "tool":
        return
    offered = [*objects(body.get("tools")), *_changes(body.get("messages"))]
    names = {string(tool.get("name")) for tool in offered}
    if string(choice.get("name")) not in names:
        review.refuse(
            f"tool_choice names {shown(choice.get('name'))}, which is not one of the agent's tools: {HOSTED}",
            hosted=True,
        )


def _changes(messages: object) -> Iterable[Mapping[str, Any]]:
    """The definitions of tools inside messages."""
    for entry in objects(messages):
        for block in objects(entry.get("content")):
            if block.get("type") == "tool_addition":
                tool = block.get("tool")
                definition = tool.get("definition") if isinstance(tool, dict) else None
                if isinstance(definition, dict):
                    yield definition


def _parsed(body: Mapping[str, Any], max_tokens: int) -> Request:
    tools: list[ToolSpec] = []
    details: dict[str, Any] = {}
    for tool in [*body.get("tools", ()), *_changes(body["messages"])]:
        name = tool["name"]
        tools.append(spec(name, tool.get("description"), tool.get("input_schema")))
        rest = {
            field: value
            for field, value in tool.items()
            if field not in ("name", "description", "input_schema") and value and (field, value) != ("type", "custom")
        }
        if bare(rest):
            details[name] = rest
    messages: list[Message] = []
    if "system" in body:
        texts, _ = parts(body["system"], TEXTS)
        messages.append(message("system", texts))
    for entry in body["messages"]:
        messages += parse(entry)
    parsed = Parsed(messages=messages, tools=tools, details=details)
    return request(body, parsed, used=("messages", "system", "tools", "max_tokens"), max_tokens=max_tokens)


def parse(entry: Mapping[str, Any]) -> list[Message]:
    """The messages in a message of a request or a response: its tool results, and the rest."""
    content = entry["content"]
    results: list[Message] = []
    rest: Any = content
    calls = []
    if isinstance(content, list):
        rest = []
        for block in content:
            if block["type"] == "tool_result":
                results.append(_result(block))
            elif block["type"] == "tool_use":
                calls.append((call(block["name"], block["input"], block["id"]), block["input"]))
            else:
                rest.append(block)
    texts, others = parts(rest, TEXTS)
    if results and not calls and not others and not any(texts):
        return results
    opaque = {"parts": others, "output_config": bare(entry.get("output_config")), "unreadable": unreadable(calls)}
    return [*results, message(entry["role"], texts, calls=[made for made, _ in calls], opaque=opaque)]


def _result(block: Mapping[str, Any]) -> Message:
    texts, others = parts(block.get("content"), TEXTS)
    opaque = {"parts": others, "is_error": block.get("is_error") or None}
    return message("tool", texts, call_id=block["tool_use_id"], opaque=opaque)
