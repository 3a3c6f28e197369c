"""Chat Completions, Responses and Messages: the same reply in the protocol of the request, whole or as a stream.

Responders create replies in the format of Chat Completions. :func:`in_protocol` converts a completion or an error to
the format that the client's path and ``stream`` require. Literal replies (``raw``) are never converted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentbench_testing.chat_server.replies import Reply

Protocol = Literal["chat", "responses", "messages"]

PATHS: Mapping[str, Protocol] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
"""Paths of requests for a completion, relative to the base URL."""

CREATED = 1_700_000_000
"""The time at which every response was created."""

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, kw_only=True)
class NativeCall:
    """A tool call: ``arguments`` are JSON text as generated."""

    id: str
    name: str
    arguments: str

    def value(self) -> dict[str, Any]:
        """The arguments as an object; empty if they are no object."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A completion, independent of the protocol."""

    id: str
    model: str
    text: str | None
    reasoning: str | None
    refusal: str | None
    calls: Sequence[NativeCall]
    finish: str | None
    """``finish_reason`` in Chat Completions."""
    usage: Mapping[str, Any] | None
    """As in Chat Completions."""
    delta: int
    """Characters per event."""

    @property
    def number(self) -> str:
        """The part of the id that distinguishes it from other responses."""
        return self.id.rpartition("-")[2]

    def tokens(self) -> tuple[int, int, int]:
        """Input tokens including cached ones, cached input tokens, output tokens."""
        usage = self.usage or {}
        details = usage.get("prompt_tokens_details") or {}
        return usage.get("prompt_tokens") or 0, details.get("cached_tokens") or 0, usage.get("completion_tokens") or 0

    def cut(self, text: str) -> list[str]:
        """A text in the pieces that are sent with one event each."""
        return [text[start : start + self.delta] for start in range(0, len(text), self.delta)]


def in_protocol(reply: Reply, path: str, request: Mapping[str, Any]) -> Reply:
    """The reply in the protocol of ``path``, as a stream if the request asks for one."""
    from agentbench_testing.chat_server import native_chat, native_messages, native_responses

    protocol, streamed = PATHS[path], request.get("stream") is True
    if reply.raw is not None or not isinstance(reply.json, Mapping):
        return reply
    error = reply.json.get("error")
    if isinstance(error, Mapping) and not reply.filled:
        return reply if protocol == "chat" else replace(reply, json=error_body(protocol, reply.status, error))
    answer = _answer(reply)
    if answer is None or (protocol == "chat" and not streamed):
        return reply
    encoder = {"chat": native_chat, "responses": native_responses, "messages": native_messages}[protocol]
    if not streamed:
        return replace(reply, json=encoder.body(answer, request))
    events = list(encoder.events(answer, request))
    if reply.stream_error is not None:
        before = events[: -1 if reply.events is None else reply.events]
        events = [*before, *encoder.error_events(reply.stream_error, answer, request, len(before))]
    elif reply.events is not None:
        events = events[: reply.events]
    headers = {"Cache-Control": "no-cache", **reply.headers}
    return replace(reply, pieces=events, content_type="text/event-stream; charset=utf-8", headers=headers, chunked=True)


def error_body(protocol: Protocol, status: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error in the protocol's format."""
    kind, message = error_type(status), str(error.get("message") or "")
    if protocol == "messages":
        kind = {"rate_limit_exceeded": "rate_limit_error"}.get(kind, kind)
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}
    code = error.get("code")
    return {"error": {"message": message, "type": kind, "param": None, "code": code if isinstance(code, str) else None}}


def error_type(status: int) -> str:
    """The vendors' type of an error with this status."""
    return _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def sse(data: Mapping[str, Any] | str, event: str = "") -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + b"data: " + text.encode("utf-8", "replace") + b"\n\n"


def _answer(reply: Reply) -> Answer | None:
    """The completion in a reply; ``None`` if it has none."""
    body: Mapping[str, Any] = reply.json
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return None
    usage = body.get("usage")
    return Answer(
        id=str(body.get("id") or ""),
        model=str(body.get("model") or ""),
        text=message.get("content"),
        reasoning=message.get("reasoning"),
        refusal=message.get("refusal"),
        calls=tuple(_calls(message.get("tool_calls") or ())),
        finish=choice.get("finish_reason"),
        usage=usage if isinstance(usage, Mapping) else None,
        delta=max(reply.delta, 1),
    )


def _calls(sent: Iterable[Mapping[str, Any]]) -> Iterable[NativeCall]:
    for each in sent:
        function = each.get("function") or {}
        yield NativeCall(
            id=str(each.get("id")), name=str(function.get("name")), arguments=function.get("arguments") or ""
        )
