"""Chat Completions: the forwarded request, and its parsed copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentbench_bridge.protocols.admission import Limits, ModelMap
from agentbench_bridge.protocols.checks import (
    FILE_URL,
    HINTS,
    HOSTED,
    IMAGE_URL,
    OWN_MCP,
    TOKENS,
    TOOL_NAME,
    Check,
    Review,
    anything,
    boolean,
    cache_control,
    check_fields,
    each,
    either,
    flat_object,
    free_object,
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

LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
CALL_EXTRAS = ("extra_content", "provider_specific_fields")
"""Fields of tool calls that are not part of the protocol."""
TEXTS: Mapping[str, str] = {"text": "text", "refusal": "refusal"}
"""Types of content parts that are text, and the fields with the text."""

_THINKING: Mapping[str, Check] = {
    "thinking": record(
        {"type": text},
        {
            "thinking": either(text, each(record({"type": one_of("text"), "text": text}))), "signature": text,
            "closed": boolean, "cache_control": cache_control,
        },
    ),
    "redacted_thinking": record({"type": text, "data": text}, {"cache_control": cache_control}),
}  # fmt: skip
_TEXT_PART = record({"type": text, "text": text}, {"cache_control": cache_control})
_PARTS = tagged(
    {
        "text": _TEXT_PART,
        "refusal": record({"type": text, "refusal": text}),
        "image_url": record(
            {"type": text, "image_url": record({"url": IMAGE_URL}, {"detail": text})}, {"cache_control": cache_control}
        ),
        "file": record(
            {"type": text, "file": record({"file_data": FILE_URL}, {"filename": text})},
            {"cache_control": cache_control},
        ),
        **_THINKING,
    }
)
_CONTENT = either(text, each(_PARTS))
_EXTRA_CONTENT = record({}, {"google": flat_object})
"""Thought signatures, in the form in which Gemini expects them back."""
_CALLS = each(
    tagged(
        {
            "function": record(
                {"function": record({"name": text}, {"arguments": text})},
                {
                    "type": text, "id": text, "index": whole(0, 10_000), "extra_content": _EXTRA_CONTENT,
                    "provider_specific_fields": flat_object, "cache_control": cache_control,
                },
            ),
            "custom": record({"type": text, "custom": record({"name": text, "input": text})}, {"id": text}),
        },
        default="function",
    )
)  # fmt: skip
_PLAIN = record({"role": text, "content": _CONTENT}, {"name": text, "cache_control": cache_control})
_MESSAGES = tagged(
    {
        "system": _PLAIN,
        "developer": _PLAIN,
        "user": _PLAIN,
        "assistant": record(
            {"role": text},
            {
                "content": _CONTENT, "name": text, "tool_calls": _CALLS, "refusal": text, "reasoning": text,
                "reasoning_content": text, "reasoning_text": text, "reasoning_opaque": text,
                "reasoning_details": each(flat_object), "thinking_blocks": each(tagged(_THINKING)),
                "provider_specific_fields": removed, "annotations": removed,
                "cache_control": cache_control, "prefix": boolean, "partial": boolean,
            },
        ),
        "tool": record(
            {"role": text, "tool_call_id": text}, {"content": _CONTENT, "name": text, "cache_control": cache_control}
        ),
    },
    tag="role",
)  # fmt: skip
GRAMMAR = record({"type": one_of("grammar"), "syntax": text, "definition": text})
_TOOLS: Mapping[str, Check] = {
    "function": record(
        {
            "type": text,
            "function": record(
                {"name": TOOL_NAME},
                {"description": text, "parameters": schema, "strict": boolean, "cache_control": cache_control},
            ),
        },
        {"cache_control": cache_control},
    ),
    "custom": record(
        {
            "type": text,
            "custom": record(
                {"name": TOOL_NAME},
                {
                    "description": text,
                    "format": tagged(
                        {
                            "text": record({"type": text}),
                            "grammar": record({"type": text, "grammar": record({"syntax": text, "definition": text})}),
                        }
                    ),
                },
            ),
        }
    ),
}
_SCHEMA_FORMAT = record(
    {
        "type": text,
        "json_schema": record({"name": text}, {"description": text, "schema": schema, "strict": boolean}),
    }
)
_FIELDS: Mapping[str, Check] = {
    "model": text,
    "messages": each(_MESSAGES),
    "tools": anything,
    "tool_choice": anything,
    "parallel_tool_calls": boolean,
    "stream": boolean,
    "stream_options": record({}, {"include_usage": boolean, "include_obfuscation": boolean}),
    "max_tokens": TOKENS,
    "max_completion_tokens": TOKENS,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": whole(-1, 1_000_000),
    "top_a": number(0, 1),
    "min_p": number(0, 1),
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "repetition_penalty": number(0, 2),
    "seed": whole(-(2**63), 2**63),
    "stop": either(text, each(text)),
    "logprobs": boolean,
    "top_logprobs": whole(0, 20),
    "logit_bias": free_object,
    "response_format": tagged(
        {
            "text": record({"type": text}),
            "json_object": record({"type": text}),
            "json_schema": _SCHEMA_FORMAT,
        }
    ),
    "reasoning_effort": text,
    "reasoning": record(
        {},
        {
            "effort": text, "summary": text, "max_tokens": TOKENS, "exclude": boolean, "enabled": boolean,
        },
    ),
    "include_reasoning": boolean,
    "thinking": record({"type": text}, {"budget_tokens": TOKENS, "clear_thinking": boolean}),
    "enable_thinking": boolean,
    "chat_template_kwargs": record(
        {}, {"enable_thinking": boolean, "thinking": boolean, "clear_thinking": boolean, "reasoning_effort": text}
    ),
    "verbosity": one_of("low", "medium", "high"),
    "modalities": each(one_of("text")),
    "usage": record({"include": boolean}),
    "user": text,
    "safety_identifier": text,
    "prompt_cache_key": text,
    "prompt_cache_retention": text,
    "metadata": free_object,
    "store": boolean,
    "n": one_of(1),
    "cache_control": cache_control,
}  # fmt: skip


def admit(body: dict[str, Any], review: Review, *, models: ModelMap, limits: Limits) -> tuple[dict[str, Any], Request]:
    """The request to send, and its parsed copy. Raises RefusedError."""
    body = without_nulls(body)
    check_fields(body, _FIELDS, HINTS, review)
    map_model(body, models, review)
    keep_tools(body, review, _kept)
    _check_choice(body, review)
    if not body.get("messages"):
        review.refuse("messages must contain at least one message")
    review.close()
    without_tools(body, review, demands=lambda choice: choice not in ("auto", "none"))
    review.close()
    if body.get("store") is True:
        review.change("store: set to false")
        body["store"] = False
    if body.pop("metadata", None):
        review.change("metadata: removed, since responses are not stored")
    limit_output(body, LIMIT_FIELDS, limits, review)
    most = next(body[name] for name in LIMIT_FIELDS if name in body)
    for name, field in (("reasoning", "max_tokens"), ("thinking", "budget_tokens")):
        limit_thinking(body, name, field, most, review)
    set_sampling(body, limits)
    if body.get("stream"):
        body["stream_options"] = {**body.get("stream_options", {}), "include_usage": True}
    else:
        body.pop("stream_options", None)
    review.close()
    return body, _parsed(body)


def _kept(tools: list[Any], where: str, review: Review) -> list[Any]:
    """The tools that the agent runs itself."""
    kept = []
    for index, tool in enumerate(tools):
        place = f"{where}[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            review.refuse(f"{place} must be an object with a type, not {shown(tool)}", hosted=True)
        elif kind == "mcp":
            review.refuse(f"{place} is of type mcp: {OWN_MCP}", hosted=True)
        elif kind in _TOOLS:
            _TOOLS[kind](tool, place, review)
            kept.append(tool)
        else:
            review.change(f"{where}: removed a tool of type {shown(kind)}, which is run by the provider")
    return kept


def _name(tool: Any) -> str:
    """The name in a tool or in a reference to one."""
    inner = tool.get(tool.get("type")) if isinstance(tool, dict) and isinstance(tool.get("type"), str) else None
    return string(inner.get("name")) if isinstance(inner, dict) else ""


def _check_choice(body: Mapping[str, Any], review: Review) -> None:
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required", "any"):
        return
    offered = {(tool.get("type"), _name(tool)) for tool in objects(body.get("tools"))}
    named: list[Any] = [choice]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        record({"type": text, "allowed_tools": record({"tools": each(tagged(_TOOLS))}, {"mode": text})})(
            choice, "tool_choice", review
        )
        inner = choice.get("allowed_tools")
        named = objects(inner.get("tools")) if isinstance(inner, dict) else []
    for item in named:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in ("function", "custom") or (kind, _name(item)) not in offered or len(item) != 2:
            review.refuse(
                f"tool_choice names {shown(item)}, which is not one of the agent's tools: {HOSTED}", hosted=True
            )


def _parsed(body: Mapping[str, Any]) -> Request:
    tools: list[ToolSpec] = []
    details: dict[str, Any] = {}
    for tool in body.get("tools", ()):
        inner = tool[tool["type"]]
        tools.append(spec(inner["name"], inner.get("description"), inner.get("parameters")))
        rest: dict[str, Any] = {"strict": True} if inner.get("strict") else {}
        if tool["type"] == "custom":
            rest = {"type": "custom", "format": inner.get("format")}
        if rest:
            details[inner["name"]] = rest
    limit = next(name for name in LIMIT_FIELDS if name in body)
    parsed = Parsed(messages=[parse(entry) for entry in body["messages"]], tools=tools, details=details)
    return request(body, parsed, used=("messages", "tools", limit, "stream_options", "usage"), max_tokens=body[limit])


def _extras(made: Mapping[str, Any]) -> Any:
    """The fields of a call that servers expect back, such as thought signatures."""
    return bare({name: made[name] for name in CALL_EXTRAS if made.get(name)})


def parse(entry: Mapping[str, Any]) -> Message:
    """A message of a request, or of a response."""
    role = entry["role"]
    texts, others = parts(entry.get("content"), TEXTS)
    if entry.get("refusal"):
        texts.append(entry["refusal"])
    calls, written = [], []
    for made in entry.get("tool_calls") or ():
        inner = made.get("function")
        if isinstance(inner, dict):
            calls.append(call(string(inner.get("name")), inner.get("arguments"), made.get("id")))
            written.append(inner.get("arguments"))
        else:
            inner = made.get("custom") or {}
            calls.append(call(string(inner.get("name")), {"input": inner.get("input")}, made.get("id")))
            written.append("")
    opaque = {
        "parts": others,
        "role": role if role == "developer" else None,
        "calls": [extra for extra in map(_extras, entry.get("tool_calls") or ()) if extra],
        "unreadable": unreadable(zip(calls, written, strict=True)),
        **{
            name: bare(value)
            for name, value in entry.items()
            if name not in ("role", "content", "refusal", "tool_calls", "tool_call_id", "cache_control")
        },
    }
    return message(
        "system" if role == "developer" else role, texts, calls=calls, call_id=entry.get("tool_call_id"), opaque=opaque
    )
