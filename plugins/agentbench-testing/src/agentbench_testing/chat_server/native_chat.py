"""Chat Completions as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentbench_testing.chat_server.native import CREATED, Answer, sse


def events(answer: Answer, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The chunks, the last one with usage if the request asks for it, and ``[DONE]``."""
    options = request.get("stream_options")
    counts = isinstance(options, Mapping) and options.get("include_usage") is True
    common: dict[str, Any] = {
        "id": answer.id,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": answer.model,
        "system_fingerprint": None,
    }
    if counts:
        common["usage"] = None
    for delta, finish in _deltas(answer):
        yield sse({**common, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})
    if counts and answer.usage is not None:
        yield sse({**common, "choices": [], "usage": answer.usage})
    yield sse("[DONE]")


def error_events(message: str, answer: Answer, request: Mapping[str, Any], sent: int) -> Iterator[bytes]:
    """A chunk with an error, as OpenRouter sends it; nothing follows."""
    yield sse(
        {
            "id": answer.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": answer.model,
            "error": {"code": 502, "message": message, "type": "server_error"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        }
    )


def _deltas(answer: Answer) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    yield {"role": "assistant", "content": "" if answer.text is not None else None, "refusal": None}, None
    for name, text in (("reasoning", answer.reasoning), ("content", answer.text), ("refusal", answer.refusal)):
        for piece in answer.cut(text or ""):
            yield {name: piece}, None
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}, None
        for piece in answer.cut(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, answer.finish
