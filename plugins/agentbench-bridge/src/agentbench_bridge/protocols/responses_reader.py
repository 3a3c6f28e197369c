"""Responses of the Responses protocol (OpenAI)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_bridge.protocols.common import bare, string
from agentbench_bridge.protocols.reading import ReportedError, at, ended, error_text, loaded, usage
from agentbench_bridge.protocols.responses import parse
from agentbench_bridge.protocols.sse import Event
from agentbench_core import Completion, Message

_MOST_ITEMS = 10_000


@attrs.define
class ResponsesCollector:
    """Takes the response from the last event, and its items from earlier events if it has none."""

    _items: dict[int, Any] = attrs.field(factory=dict, init=False)
    _response: dict[str, Any] | None = attrs.field(default=None, init=False)

    def add(self, event: Event) -> None:
        """Add an event."""
        if event.data.strip() == "[DONE]":
            return
        data = loaded(event.data)
        kind = data.get("type", event.name)
        if kind == "error" or (kind != "response.failed" and data.get("error")):
            raise ReportedError(f"the stream reported an error: {error_text(data)}", data)
        if kind == "response.failed":
            response = data["response"]
            raise ReportedError(f"the response failed: {error_text(response)}", response)
        if kind == "response.output_item.done":
            index = data.get("output_index", len(self._items))
            if not isinstance(index, int) or len(self._items) >= _MOST_ITEMS:
                raise ValueError(f"the stream contains an invalid item index: {index!r:.40}")
            self._items[index] = data["item"]
        elif kind in ("response.completed", "response.incomplete", "response.done"):
            self._response = dict(data["response"])

    def response(self) -> Mapping[str, Any]:
        """The response."""
        if self._response is None:
            raise ValueError("the stream ended before the response was complete")
        if not self._response.get("output"):
            self._response["output"] = [item for _, item in sorted(self._items.items())]
        return self._response


def interpret(response: Mapping[str, Any]) -> Completion:
    """The completion in a response."""
    status = response.get("status", "completed")
    if status not in ("completed", "incomplete"):
        raise ValueError(f"the response ended with status {status!r:.40}")
    message = _message(response["output"])
    finish = "stop"
    if status == "incomplete":
        reason = at(response, ("incomplete_details", "reason"))
        finish = "refusal" if reason == "content_filter" else "length"
    elif _refuses(response["output"]) and not message.tool_calls:
        finish = "refusal"
    return Completion(
        message=message,
        finish=ended(finish, message),
        usage=usage(
            response.get("usage"),
            prompt=("input_tokens",),
            completion="output_tokens",
            cached=("input_tokens_details", "cached_tokens"),
        ),
        served_by=string(response.get("provider")),
        model=string(response.get("model")),
        response_id=string(response.get("id")),
    )


def _message(output: Any) -> Message:
    """The items of a response as one message."""
    items = [{**item, "role": "assistant"} if item["type"] == "message" else item for item in output]
    messages = parse(items)
    if not messages:
        return Message(role="assistant")
    if len(messages) == 1 and messages[0].role == "assistant":
        return messages[0]
    known = [message for message in messages if message.role == "assistant"]
    return Message(
        role="assistant",
        content="\n".join(message.content for message in known if message.content),
        tool_calls=tuple(call for message in known for call in message.tool_calls),
        opaque={"items": bare(items, "id", "status")},
    )


def _refuses(output: Any) -> bool:
    return any(
        part.get("type") == "refusal" for item in output if item["type"] == "message" for part in item["content"]
    )
