"""Requests in the three protocols, parsed into ``Request``. Unlike the server, it imports ``agentbench_core``.

Texts of one message are separated by an empty line. Images, reasoning and tools that the provider runs are omitted.
The argument of a freeform (``custom``) tool is called ``input``; the name of a function in a namespace is
``NAMESPACE.NAME``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_testing.chat_server.native_responses import offered_tools
from agentbench_testing.chat_server.protocols import Protocol

_FREEFORM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_COMMAND_LIST = {"type": "array", "items": {"type": "string"}}
_LOCAL_SHELL = {"type": "object", "properties": {"command": _COMMAND_LIST}, "required": ["command"]}
_BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_MAXIMA: Mapping[Protocol, Sequence[str]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
_TEXTS = ("text", "input_text", "output_text")


def request_in(protocol: Protocol, sent: Mapping[str, Any]) -> Request:
    """The request in a JSON body. Raises KeyError, TypeError or ValueError if it is malformed."""
    messages, tools = _READERS[protocol]
    offered = offered_tools(sent) if protocol == "responses" else sent.get("tools") or ()
    return Request(
        messages=tuple(messages(sent)),
        tools=tuple(tools(offered)),
        model=sent.get("model") or "",
        max_tokens=next((sent[name] for name in _MAXIMA[protocol] if sent.get(name)), None),
        temperature=sent.get("temperature"),
        top_p=sent.get("top_p"),
    )


def _text(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n\n".join(part["text"] for part in parts if part.get("type") in _TEXTS and part.get("text"))


def _role(role: str) -> Literal["system", "user"]:
    return "system" if role in ("system", "developer") else "user"


def _arguments(text: str | None) -> Mapping[str, Any]:
    value = json.loads(text or "{}")
    return value if isinstance(value, dict) else {}


# --- Chat Completions ----------------------------------------------------------------------------------------------


def _chat_messages(sent: Mapping[str, Any]) -> Iterator[Message]:
    for each in sent["messages"]:
        role, text = each["role"], _text(each.get("content"))
        if role == "assistant":
            calls = [(made["id"], made["function"]) for made in each.get("tool_calls") or ()]
            yield Message(
                role="assistant",
                content=text,
                tool_calls=tuple(
                    ToolCall(tool=made["name"], arguments=_arguments(made["arguments"]), id=identity)
                    for identity, made in calls
                ),
            )
        elif role == "tool":
            yield Message(role="tool", content=text, tool_call_id=each.get("tool_call_id") or "")
        else:
            yield Message(role=_role(role), content=text)


def _chat_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolSpec]:
    return (_function(tool["function"]) for tool in tools if tool.get("type") == "function")


def _function(tool: Mapping[str, Any], prefix: str = "") -> ToolSpec:
    return ToolSpec(
        name=prefix + tool["name"], description=tool.get("description") or "", parameters=tool.get("parameters") or {}
    )


# --- Responses -----------------------------------------------------------------------------------------------------


def _responses_messages(sent: Mapping[str, Any]) -> Iterator[Message]:
    if sent.get("instructions"):
        yield Message(role="system", content=sent["instructions"])
    texts: list[str] = []
    calls: list[ToolCall] = []
    items = sent["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        if made := _call(item):
            calls.append(made)
            continue
        if item.get("type") in ("reasoning", "additional_tools"):
            continue
        if item.get("role") == "assistant" and not calls:
            texts.append(_text(item.get("content")))
            continue
        if texts or calls:
            yield Message(role="assistant", content="\n\n".join(texts), tool_calls=tuple(calls))
            texts, calls = [], []
        if item.get("role") == "assistant":
            texts.append(_text(item.get("content")))
        elif "role" in item:
            yield Message(role=_role(item["role"]), content=_text(item.get("content")))
        elif str(item.get("type")).endswith("_output"):
            yield Message(
                role="tool", content=_text(item.get("output")), tool_call_id=item.get("call_id") or item.get("id") or ""
            )
    if texts or calls:
        yield Message(role="assistant", content="\n\n".join(texts), tool_calls=tuple(calls))


def _call(item: Mapping[str, Any]) -> ToolCall | None:
    """The call in an item; ``None`` if it is something else."""
    identity = item.get("call_id") or item.get("id") or ""
    prefix = f"{item['namespace']}." if item.get("namespace") else ""
    match item.get("type"):
        case "function_call":
            return ToolCall(tool=prefix + item["name"], arguments=_arguments(item["arguments"]), id=identity)
        case "custom_tool_call":
            return ToolCall(tool=prefix + item["name"], arguments={"input": item["input"]}, id=identity)
        case "local_shell_call":
            return ToolCall(tool="local_shell", arguments={"command": item["action"]["command"]}, id=identity)
    return None


def _responses_tools(tools: Iterable[Mapping[str, Any]], prefix: str = "") -> Iterator[ToolSpec]:
    for tool in tools:
        match tool.get("type"):
            case "function":
                yield _function(tool, prefix)
            case "custom":
                about = tool.get("description") or ""
                yield ToolSpec(name=prefix + tool["name"], description=about, parameters=_FREEFORM)
            case "local_shell":
                yield ToolSpec(name="local_shell", description="", parameters=_LOCAL_SHELL)
            case "namespace" if not prefix:
                yield from _responses_tools(tool["tools"], f"{tool['name']}.")


# --- Messages ------------------------------------------------------------------------------------------------------


def _messages_messages(sent: Mapping[str, Any]) -> Iterator[Message]:
    if system := _text(sent.get("system")):
        yield Message(role="system", content=system)
    for each in sent["messages"]:
        content = each["content"]
        blocks = content if isinstance(content, list) else []
        if each["role"] == "assistant":
            calls = tuple(
                ToolCall(tool=block["name"], arguments=block["input"], id=block["id"])
                for block in blocks
                if block["type"] == "tool_use"
            )
            yield Message(role="assistant", content=_text(content), tool_calls=calls)
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                yield Message(role="tool", content=_text(block.get("content")), tool_call_id=block["tool_use_id"])
        if text := _text(content):
            yield Message(role=_role(each["role"]), content=text)


def _messages_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolSpec]:
    for tool in tools:
        kind = tool.get("type") or "custom"
        if kind == "custom" and not tool.get("defer_loading"):
            yield ToolSpec(
                name=tool["name"], description=tool.get("description") or "", parameters=tool.get("input_schema") or {}
            )
        elif kind.startswith("bash_"):
            yield ToolSpec(name=tool["name"], description="", parameters=_BASH)


_READERS = {
    "chat": (_chat_messages, _chat_tools),
    "responses": (_responses_messages, _responses_tools),
    "messages": (_messages_messages, _messages_tools),
}
