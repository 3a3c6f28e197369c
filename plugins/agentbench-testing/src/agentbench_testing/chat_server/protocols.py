"""Chat Completions, Responses and Messages: the same reply in the protocol of the request, whole or as a stream.

Responders create replies in the format of Chat Completions. :func:`in_protocol` converts a completion or an error to
the format that the client's path and ``stream`` require. Literal replies (``raw``) are never converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from agentbench_testing.chat_server import native_chat, native_messages, native_responses
from agentbench_testing.chat_server.native import Answer, NativeCall
from agentbench_testing.chat_server.replies import Reply

Protocol = Literal["chat", "responses", "messages"]

PATHS: Mapping[str, Protocol] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
"""Paths of requests for a completion, relative to the base URL."""

_BODIES = {"responses": native_responses.body, "messages": native_messages.body}
"""Not for Chat Completions, since replies already have that format."""
_EVENTS = {"chat": native_chat.events, "responses": native_responses.events, "messages": native_messages.events}
_ERROR_EVENTS = {
    "chat": native_chat.error_events,
    "responses": native_responses.error_events,
    "messages": native_messages.error_events,
}

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


def in_protocol(reply: Reply, path: str, request: Mapping[str, Any]) -> Reply:
    """The reply in the protocol of ``path``, as a stream if the request asks for one."""
    protocol = PATHS[path]
    if reply.raw is not None or not isinstance(reply.json, Mapping):
        return reply
    error = reply.json.get("error")
    if isinstance(error, Mapping) and not reply.filled:
        return reply if protocol == "chat" else replace(reply, json=error_body(protocol, reply.status, error))
    answer = _answer(reply)
    if answer is None:
        return reply
    if request.get("stream") is not True:
        return replace(reply, json=_BODIES[protocol](answer, request)) if protocol in _BODIES else reply
    return replace(
        reply,
        pieces=list(_stream(reply, answer, protocol, request)),
        content_type="text/event-stream; charset=utf-8",
        headers={"Cache-Control": "no-cache", **reply.headers},
        chunked=True,
    )


def _stream(reply: Reply, answer: Answer, protocol: Protocol, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The events that are sent despite the reply's faults."""
    events = list(_EVENTS[protocol](answer, request))
    if reply.padding:
        yield b":" + b" " * reply.padding + b"\n\n"
    if reply.stream_error is None:
        yield from events[: reply.events]
        return
    before = events[: -1 if reply.events is None else reply.events]
    yield from before
    yield from _ERROR_EVENTS[protocol](reply.stream_error, answer, request, len(before))


def error_body(protocol: Protocol, status: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error in the protocol's format."""
    kind, message = _error_type(status), str(error.get("message") or "")
    if protocol == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}
    code = error.get("code")
    return {"error": {"message": message, "type": kind, "param": None, "code": code if isinstance(code, str) else None}}


def _error_type(status: int) -> str:
    """The vendors' error type for this status."""
    return _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


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


def _calls(sent: Iterable[Mapping[str, Any]]) -> Iterator[NativeCall]:
    for each in sent:
        function = each.get("function") or {}
        yield NativeCall(
            id=str(each.get("id")), name=str(function.get("name")), arguments=function.get("arguments") or ""
        )
