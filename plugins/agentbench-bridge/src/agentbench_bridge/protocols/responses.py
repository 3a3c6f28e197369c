"""Responses (OpenAI): the forwarded request, and its parsed copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
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
    check_fields,
    each,
    either,
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
    as_text,
    bare,
    call,
    keep_tools,
    limit_output,
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
from agentbench_core import Message, Request, ToolCall, ToolSpec

TEXTS: Mapping[str, str] = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_PARTS = tagged(
    {
        "input_text": record({"type": text, "text": text}),
        "output_text": record({"type": text, "text": text}, {"annotations": removed, "logprobs": removed}),
        "refusal": record({"type": text, "refusal": text}),
        "input_image": record({"type": text, "image_url": IMAGE_URL}, {"detail": text}),
        "input_file": record({"type": text, "file_data": FILE_URL}, {"filename": text}),
        "encrypted_content": record({"type": text, "encrypted_content": text}),
    }
)
_CONTENT = either(text, each(_PARTS))
_ITEM: Mapping[str, Check] = {"id": text, "status": text, "internal_chat_message_metadata_passthrough": free_object}
_NAMED: Mapping[str, Check] = {**_ITEM, "namespace": TOOL_NAME}
_DIRECT = each(one_of("direct"))
_GRAMMAR = record({"type": text, "syntax": text, "definition": text})
_FUNCTION = record(
    {"type": text, "name": TOOL_NAME},
    {
        "description": text, "parameters": schema, "strict": boolean, "defer_loading": boolean,
        "output_schema": schema, "allowed_callers": _DIRECT,
    },
)  # fmt: skip
_CUSTOM = record(
    {"type": text, "name": TOOL_NAME},
    {
        "description": text, "defer_loading": boolean, "allowed_callers": _DIRECT,
        "format": tagged({"text": record({"type": text}), "grammar": _GRAMMAR}),
    },
)  # fmt: skip
_TOOLS: Mapping[str, Check] = {
    "function": _FUNCTION,
    "custom": _CUSTOM,
    "local_shell": record({"type": text}),
    "apply_patch": record({"type": text}),
    "shell": record({"type": text, "environment": record({"type": one_of("local")})}),
    "tool_search": record({"type": text, "execution": one_of("client")}, {"description": text, "parameters": schema}),
}
"""Tools that the agent runs itself, except for namespaces of functions."""


_REASONING = record(
    {},
    {
        "effort": text, "summary": text, "generate_summary": text, "context": text,
        "mode": one_of("standard"),  # others cost more
    },
)  # fmt: skip


def _tool_list(value: Any, where: str, review: Review) -> None:
    """Tools inside an item; tools of the provider are removed from the list."""
    if not isinstance(value, list):
        review.refuse(f"{where} must be an array, not {shown(value)}")
        return
    value[:] = _kept(value, where, review)


def _reference(value: Any, where: str, review: Review) -> None:
    """A reference to an item of an earlier response."""
    review.refuse(f"{where} refers to a stored item: set store to false in the agent, so that it sends whole items")


_SHELL_OUTPUT = record(
    {},
    {
        "stdout": text,
        "stderr": text,
        "outcome": tagged(
            {
                "exit": record({"type": text}, {"exit_code": whole(-(2**63), 2**63)}),
                "timeout": record({"type": text}),
            }
        ),
    },
)
_ITEMS = tagged(
    {
        "item_reference": _reference,
        "message": record(
            {"role": one_of("system", "developer", "user", "assistant"), "content": _CONTENT},
            {"type": text, "phase": text, **_ITEM},
        ),
        "reasoning": record(
            {"type": text},
            {
                "summary": each(record({"type": text, "text": text})),
                "content": each(record({"type": text, "text": text})),
                "encrypted_content": text, **_ITEM,
            },
        ),
        "function_call": record({"type": text, "name": text, "call_id": text}, {"arguments": text, **_NAMED}),
        "function_call_output": record({"type": text, "call_id": text}, {"output": _CONTENT, "name": text, **_NAMED}),
        "custom_tool_call": record({"type": text, "name": text, "call_id": text}, {"input": text, **_NAMED}),
        "custom_tool_call_output": record(
            {"type": text, "call_id": text}, {"output": _CONTENT, "name": text, **_ITEM}
        ),
        "local_shell_call": record({"type": text, "action": free_object}, {"call_id": text, **_ITEM}),
        "local_shell_call_output": record({"type": text}, {"call_id": text, "output": _CONTENT, **_ITEM}),
        "shell_call": record(
            {"type": text, "call_id": text, "action": free_object},
            {"environment": record({"type": one_of("local")}), **_ITEM},
        ),
        "shell_call_output": record(
            {"type": text, "call_id": text}, {"output": each(_SHELL_OUTPUT), "max_output_length": TOKENS, **_ITEM}
        ),
        "apply_patch_call": record({"type": text, "call_id": text, "operation": free_object}, _ITEM),
        "apply_patch_call_output": record({"type": text, "call_id": text}, {"output": text, **_ITEM}),
        "tool_search_call": record(
            {"type": text, "execution": one_of("client")}, {"call_id": text, "arguments": anything, **_ITEM}
        ),
        "tool_search_output": record(
            {"type": text, "execution": one_of("client")}, {"call_id": text, "tools": _tool_list, **_ITEM}
        ),
        "additional_tools": record(
            {"type": text, "tools": _tool_list}, {"role": one_of("developer", "system"), **_ITEM}
        ),
        "agent_message": record(
            {"type": text, "content": _CONTENT}, {"author": text, "recipient": text, "role": text, **_ITEM}
        ),
        "compaction": record({"type": text, "encrypted_content": text}, _ITEM),
        "configuration_update": record(
            {"type": text}, {"reasoning": _REASONING, "text": record({}, {"verbosity": text}), **_ITEM}
        ),
    },
    default="message",
)  # fmt: skip
_FORMAT = tagged(
    {
        "text": record({"type": text}),
        "json_object": record({"type": text}),
        "json_schema": record({"type": text, "name": text, "schema": schema}, {"description": text, "strict": boolean}),
    }
)
_INCLUDED = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})
"""Values of ``include`` that are forwarded; the others belong to tools of the provider."""
_FIELDS: Mapping[str, Check] = {
    "model": text,
    "input": either(text, each(_ITEMS)),
    "instructions": text,
    "tools": anything,
    "tool_choice": anything,
    "parallel_tool_calls": boolean,
    "max_tool_calls": whole(1, 10_000),
    "stream": boolean,
    "stream_options": record({}, {"include_obfuscation": boolean}),
    "max_output_tokens": TOKENS,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_logprobs": whole(0, 20),
    "reasoning": record(
        {}, {"effort": text, "summary": text, "generate_summary": text, "context": text, "mode": one_of("standard")}
    ),
    "text": record({}, {"format": _FORMAT, "verbosity": text}),
    "include": each(text),
    "truncation": one_of("disabled", "auto"),
    "store": boolean,
    "background": one_of(False),
    "prompt_cache_key": text,
    "prompt_cache_retention": text,
    "client_metadata": free_object,
    "metadata": free_object,
    "user": text,
    "safety_identifier": text,
}
_OUTPUTS = frozenset(
    {
        "reasoning", "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call",
        "tool_search_call",
    }
)  # fmt: skip
"""Types of items that models write, except for messages."""
_USED = ("input", "instructions", "tools", "max_output_tokens", "stream_options")


def admit(body: dict[str, Any], review: Review, *, models: ModelMap, limits: Limits) -> tuple[dict[str, Any], Request]:
    """The request to send, and its parsed copy. Raises RefusedError."""
    body = without_nulls(body)
    check_fields(body, _FIELDS, HINTS, review)
    map_model(body, models, review)
    keep_tools(body, review, _kept)
    _check_choice(body, review)
    if not body.get("input"):
        review.refuse("input must contain at least one item")
    review.close()
    if not _added(body["input"]):
        without_tools(body, review, demands=_demands)
        review.close()
    if body.get("store") is True:
        review.change("store: set to false")
    body["store"] = False
    body.pop("background", None)
    _keep_included(body, review)
    limit_output(body, ("max_output_tokens",), limits, review)
    set_sampling(body, limits)
    if not body.get("stream"):
        body.pop("stream_options", None)
    review.close()
    return body, _parsed(body)


def _demands(choice: Any) -> bool:
    return choice not in ("auto", "none")


def _keep_included(body: dict[str, Any], review: Review) -> None:
    if "include" not in body:
        return
    for value in body["include"]:
        if value not in _INCLUDED:
            review.change(f"include: removed {shown(value)}, which is not on the allow list")
    body["include"] = [value for value in body["include"] if value in _INCLUDED]


def _kept(tools: list[Any], where: str, review: Review, *, inside: bool = False) -> list[Any]:
    """The tools that the agent runs itself."""
    kept = []
    for index, tool in enumerate(tools):
        place = f"{where}[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            review.refuse(f"{place} must be an object with a type, not {shown(tool)}", hosted=True)
        elif kind == "mcp":
            review.refuse(f"{place} is of type mcp: {OWN_MCP}", hosted=True)
        elif kind == "namespace" and not inside:
            record({"type": text, "name": TOOL_NAME, "tools": anything}, {"description": text})(tool, place, review)
            inner = tool.get("tools")
            if not isinstance(inner, list):
                review.refuse(f"{place}.tools must be an array, not {shown(inner)}")
                continue
            own = _kept(inner, f"{place}.tools", review, inside=True)
            if own or not inner:
                kept.append({**tool, "tools": own})
        elif kind in (("function", "custom") if inside else _TOOLS) and not _is_hosted(tool):
            _TOOLS[kind](tool, place, review)
            kept.append(tool)
        else:
            review.change(f"{where}: removed a tool of type {shown(kind)}, which is run by the provider")
    return kept


def _is_hosted(tool: Mapping[str, Any]) -> bool:
    """Whether the provider runs a tool that agents can also run."""
    if tool["type"] == "shell":
        environment = tool.get("environment")
        return not isinstance(environment, dict) or environment.get("type") != "local"
    return bool(tool["type"] == "tool_search" and tool.get("execution") != "client")


def _added(items: object) -> list[Any]:
    """The tools in the input's items."""
    return [
        tool
        for item in objects(items)
        if item.get("type") in ("additional_tools", "tool_search_output")
        for tool in objects(item.get("tools"))
    ]


def _flat(tools: Iterable[Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Each tool with the name used in its calls."""
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            for inner in tool["tools"]:
                yield f"{tool['name']}.{inner['name']}", inner
        elif isinstance(tool, dict):
            yield string(tool.get("name")) or string(tool.get("type")), tool


def _check_choice(body: Mapping[str, Any], review: Review) -> None:
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required") or review.reasons:
        return
    offered = [*objects(body.get("tools")), *_added(body.get("input"))]
    names = {(tool["type"], tool.get("name", tool["type"])) for _, tool in _flat(offered)}
    named: Sequence[Any] = [choice]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        record({"type": text, "tools": each(free_object)}, {"mode": one_of("auto", "required")})(
            choice, "tool_choice", review
        )
        named = objects(choice.get("tools"))
    for item in named:
        kind = item.get("type") if isinstance(item, dict) else None
        name = item.get("name", kind) if isinstance(item, dict) else None
        is_own = isinstance(kind, str) and isinstance(name, str) and (kind, name) in names
        if not is_own or not set(item) <= {"type", "name"}:
            review.refuse(
                f"tool_choice names {shown(item)}, which is not one of the agent's tools: {HOSTED}", hosted=True
            )


def _parsed(body: Mapping[str, Any]) -> Request:
    tools: list[ToolSpec] = []
    details: dict[str, Any] = {}
    for name, tool in _flat([*body.get("tools", ()), *_added(body["input"])]):
        tools.append(spec(name, tool.get("description"), tool.get("parameters")))
        rest = {
            field: value
            for field, value in tool.items()
            if field not in ("name", "description", "parameters") and value and (field, value) != ("type", "function")
        }
        if rest:
            details[name] = rest
    messages: list[Message] = []
    if "instructions" in body:
        messages.append(message("system", [body["instructions"]], opaque={"role": "instructions"}))
    items = body["input"]
    messages += parse([{"role": "user", "content": items}] if isinstance(items, str) else items)
    parsed = Parsed(messages=messages, tools=tools, details=details)
    return request(body, parsed, used=_USED, max_tokens=body["max_output_tokens"])


def parse(items: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The messages in the items of a request or a response. Consecutive items of the model are one message."""
    messages: list[Message] = []
    turn: list[Mapping[str, Any]] = []
    for item in items:
        if _is_output(item):
            turn.append(item)
            continue
        if turn:
            messages.append(_assistant(turn))
            turn = []
        messages.append(_input(item))
    if turn:
        messages.append(_assistant(turn))
    return messages


def _is_output(item: Mapping[str, Any]) -> bool:
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") == "assistant"
    return kind in _OUTPUTS


def _input(item: Mapping[str, Any]) -> Message:
    kind = item.get("type", "message")
    if kind == "message":
        role = item["role"]
        texts, others = parts(item["content"], TEXTS)
        opaque = {"parts": others, "role": role if role == "developer" else None}
        return message("system" if role == "developer" else role, texts, opaque=opaque)
    if kind.endswith("_output"):
        output = item.get("output")
        texts, others = parts(output, TEXTS)
        rest = {
            name: value for name, value in item.items() if name not in ("type", "id", "call_id", "output", "status")
        }
        opaque = {"parts": others, "type": kind if kind != "function_call_output" else None, **bare(rest)}
        return message("tool", texts, call_id=item.get("call_id") or item.get("id"), opaque=opaque)
    rest = {name: value for name, value in item.items() if name not in ("id", "status")}
    if kind == "additional_tools":  # their specs are in the request
        rest["tools"] = [name for name, _ in _flat(item["tools"])]
    return message("system" if kind == "additional_tools" else "user", [], opaque={"item": bare(rest)})


def _assistant(items: Iterable[Mapping[str, Any]]) -> Message:
    texts: list[str] = []
    others: list[Any] = []
    calls: list[ToolCall] = []
    written: list[object] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            found, rest = parts(item["content"], TEXTS)
            texts += found
            others += rest
            if item.get("phase"):
                others.append({"phase": bare(item["phase"])})
        elif kind == "reasoning":
            others.append(bare(item, "id", "status"))
        else:
            calls.append(_call(kind, item))
            written.append(item.get("arguments"))
    opaque = {"parts": others, "unreadable": unreadable(zip(calls, written, strict=True))}
    return message("assistant", texts, calls=calls, opaque=opaque)


def _call(kind: str, item: Mapping[str, Any]) -> ToolCall:
    call_id = item.get("call_id") or item.get("id")
    name = string(item.get("name")) or kind.removesuffix("_call")
    if item.get("namespace"):
        name = f"{item['namespace']}.{name}"
    if kind in ("function_call", "tool_search_call"):
        return call(name, item.get("arguments"), call_id)
    if kind == "custom_tool_call":
        return call(name, {"input": item.get("input", "")}, call_id)
    details = item.get("action", item.get("operation"))
    arguments = bare(details, "type") if isinstance(details, dict) else {}
    command = arguments.get("command")
    if isinstance(command, list):
        arguments["command"] = shlex.join(as_text(word) for word in command)
    return call(name, arguments, call_id)
