"""Responses of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_bridge.protocols.chat import CALL_EXTRAS, parse
from agentbench_bridge.protocols.common import string
from agentbench_bridge.protocols.reading import ReportedError, ended, error_text, loaded, usage
from agentbench_bridge.protocols.sse import Event
from agentbench_core import Completion

_TEXTS = ("content", "refusal", "reasoning", "reasoning_content", "reasoning_text", "reasoning_opaque")
_MOST_CALLS = 1_000
_FINISHES = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


@attrs.define
class ChatCollector:
    """Combines chunks into a chat completion."""

    _fields: dict[str, Any] = attrs.field(factory=dict, init=False)
    _texts: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    _details: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _calls: dict[int, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _finish: str = attrs.field(default="", init=False)
    _started: bool = attrs.field(default=False, init=False)
    """Whether there was a choice."""
    _done: bool = attrs.field(default=False, init=False)

    def add(self, event: Event) -> None:
        """Add a chunk."""
        if event.data.strip() == "[DONE]":
            self._done = True
            return
        chunk = loaded(event.data)
        if chunk.get("error") or event.name == "error":
            raise ReportedError(f"the stream reported an error: {error_text(chunk)}", chunk)
        for name in ("id", "model", "provider", "usage"):
            if chunk.get(name):
                self._fields[name] = chunk[name]
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                self._choice(choice)

    def _choice(self, choice: Mapping[str, Any]) -> None:
        if choice.get("error"):
            raise ReportedError(f"the stream reported an error: {error_text(choice)}", choice)
        self._started = True
        delta = choice.get("delta") or choice.get("message") or {}
        for name in _TEXTS:
            if isinstance(delta.get(name), str):
                self._texts.setdefault(name, []).append(delta[name])
        for detail in delta.get("reasoning_details") or ():
            _add_detail(self._details, detail)
        for position, part in enumerate(delta.get("tool_calls") or ()):
            self._call(part.get("index", position), part)
        if choice.get("finish_reason"):
            self._finish = choice["finish_reason"]

    def _call(self, index: Any, part: Mapping[str, Any]) -> None:
        if not isinstance(index, int) or (index not in self._calls and len(self._calls) >= _MOST_CALLS):
            raise ValueError(f"the stream contains an invalid tool call index: {index!r:.40}")
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": []})
        function = part.get("function") or part.get("custom") or {}
        call["id"] = call["id"] or string(part.get("id"))
        call["name"] = call["name"] or string(function.get("name"))
        call["custom"] = call.get("custom") or bool(part.get("custom"))
        call["extras"] = call.get("extras", {}) | {name: part[name] for name in CALL_EXTRAS if part.get(name)}
        written = function.get("arguments", function.get("input"))
        if isinstance(written, dict):
            call["object"] = written
        elif isinstance(written, str):
            call["arguments"].append(written)

    def response(self) -> Mapping[str, Any]:
        """The response."""
        if not self._started or not (self._done or (self._finish and "usage" in self._fields)):
            raise ValueError("the stream ended before the response was complete")
        message: dict[str, Any] = {"role": "assistant"}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._details:
            message["reasoning_details"] = [_joined(detail) for detail in self._details]
        if self._calls:
            message["tool_calls"] = [_written(call) for _, call in sorted(self._calls.items())]
        return {**self._fields, "choices": [{"message": message, "finish_reason": self._finish}]}


def _written(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("object") or "".join(call["arguments"])
    if call["custom"]:
        return {"id": call["id"], "type": "custom", "custom": {"name": call["name"], "input": arguments}}
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function, **call["extras"]}


def _add_detail(merged: list[dict[str, Any]], detail: Mapping[str, Any]) -> None:
    """Add a part of the reasoning details; parts of one text become one entry."""
    last = merged[-1] if merged else {}
    if not last or (last.get("type"), last.get("index")) != (detail.get("type"), detail.get("index")):
        last = {}
        merged.append(last)
    for name, value in detail.items():
        if name in _PIECES:
            last.setdefault(name, []).append(string(value))
        elif value is not None:
            last[name] = value


def _joined(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "".join(value) if name in _PIECES else value for name, value in detail.items()}


_PIECES = frozenset({"text", "summary", "data"})
_UNREAD = frozenset({"annotations", "audio", "provider_specific_fields"})
"""Fields of messages that are not in the parsed copy of requests, either."""


def interpret(response: Mapping[str, Any]) -> Completion:
    """The completion in a response."""
    choice = response["choices"][0]
    if choice.get("error"):
        raise ReportedError(f"the server reported an error: {error_text(choice)}", choice)
    written = {name: value for name, value in choice["message"].items() if name not in _UNREAD}
    message = parse({**written, "role": "assistant"})
    reason = choice.get("finish_reason") or "stop"
    if reason == "error":
        raise ValueError("the provider ended the response with an error")
    finish = "refusal" if written.get("refusal") and not message.tool_calls else _FINISHES.get(reason, "stop")
    return Completion(
        message=message,
        finish=ended(finish, message),
        usage=usage(
            response.get("usage"),
            prompt=("prompt_tokens",),
            completion="completion_tokens",
            cached=("prompt_tokens_details", "cached_tokens"),
        ),
        served_by=string(response.get("provider")),
        model=string(response.get("model")),
        response_id=string(response.get("id")),
    )
