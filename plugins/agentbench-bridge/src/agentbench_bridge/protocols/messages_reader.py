"""Responses of Messages (Anthropic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_bridge.protocols.common import string
from agentbench_bridge.protocols.messages import parse
from agentbench_bridge.protocols.reading import ReportedError, count, ended, error_text, loaded, usage
from agentbench_bridge.protocols.sse import Event
from agentbench_core import Completion, Message, Usage

_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_MOST_BLOCKS = 10_000
_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


@attrs.define
class MessagesCollector:
    """Combines events into a message."""

    _message: dict[str, Any] = attrs.field(factory=dict, init=False)
    _blocks: dict[int, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _pieces: dict[tuple[int, str], list[str]] = attrs.field(factory=dict, init=False)
    _done: bool = attrs.field(default=False, init=False)

    def add(self, event: Event) -> None:
        """Add an event."""
        if event.data.strip() == "[DONE]":
            return
        data = loaded(event.data)
        kind = data.get("type", event.name)
        if kind == "error" or data.get("error"):
            raise ReportedError(f"the stream reported an error: {error_text(data)}", data)
        if kind == "message_start":
            self._message = dict(data["message"])
        elif kind == "content_block_start":
            self._start(data["index"], data["content_block"])
        elif kind == "content_block_delta":
            self._delta(data["index"], data["delta"])
        elif kind == "message_delta":
            self._message |= {name: value for name, value in data["delta"].items() if value is not None}
            reported = {name: value for name, value in (data.get("usage") or {}).items() if value is not None}
            self._message["usage"] = {**(self._message.get("usage") or {}), **reported}
        elif kind == "message_stop":
            self._done = True

    def _start(self, index: Any, block: Mapping[str, Any]) -> None:
        if not isinstance(index, int) or len(self._blocks) >= _MOST_BLOCKS:
            raise ValueError(f"the stream contains an invalid block index: {index!r:.40}")
        self._blocks[index] = dict(block)

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks[index]
        kind = delta["type"]
        if kind == "input_json_delta":
            self._pieces.setdefault((index, "input"), []).append(string(delta.get("partial_json")))
        elif kind in _PIECES:
            name = _PIECES[kind]
            pieces = self._pieces.setdefault((index, name), [string(block.get(name))])
            pieces.append(string(delta.get(name)))

    def response(self) -> Mapping[str, Any]:
        """The response."""
        if not self._done or not self._message:
            raise ValueError("the stream ended before the response was complete")
        for (index, name), pieces in self._pieces.items():
            written = "".join(pieces)
            if name != "input" or written.strip():
                self._blocks[index][name] = written
        return {**self._message, "content": [block for _, block in sorted(self._blocks.items())]}


def interpret(response: Mapping[str, Any]) -> Completion:
    """The completion in a message."""
    message = parse({"role": "assistant", "content": response["content"]})[-1]
    finish = _FINISHES.get(string(response.get("stop_reason")), "stop")
    return Completion(
        message=message,
        finish=ended(finish, message),
        usage=usage(
            response.get("usage"),
            prompt=("input_tokens",),
            completion="output_tokens",
            cached=("cache_read_input_tokens",),
            added=("cache_creation_input_tokens", "cache_read_input_tokens"),
        ),
        served_by=string(response.get("provider")),
        model=string(response.get("model")),
        response_id=string(response.get("id")),
    )


def interpret_count(response: Mapping[str, Any]) -> Completion:
    """The completion for a token count; it is free."""
    tokens = count(response.get("input_tokens"))
    if tokens is None:
        raise ValueError("the response contains no token counts")
    message = Message(role="assistant", opaque={"input_tokens": tokens})
    return Completion(message=message, usage=Usage(cost_usd=0.0))
