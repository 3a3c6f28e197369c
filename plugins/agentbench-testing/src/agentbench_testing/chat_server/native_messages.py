"""The Messages protocol: a message, or its stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentbench_testing.chat_server.native import Answer, NativeCall, sse

_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def body(answer: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The message."""
    content: list[dict[str, Any]] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": _signature(answer)})
    if text := answer.text or answer.refusal:
        content.append({"type": "text", "text": text, "citations": None})
    content += [{**_tool_use(call), "input": call.value()} for call in answer.calls]
    return {**_message(answer), "content": content, **_ended(answer), "usage": _usage(answer, done=True)}


def events(answer: Answer, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The events from ``message_start`` to ``message_stop``."""
    started = {**_message(answer), "content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message={**started, "usage": _usage(answer, done=False)})
    for index, (block, deltas) in enumerate(_blocks(answer)):
        yield _event("content_block_start", index=index, content_block=block)
        if index == 0:
            yield _event("ping")
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta=_ended(answer), usage=_usage(answer, done=True))
    yield _event("message_stop")


def error_events(message: str, answer: Answer, request: Mapping[str, Any], sent: int) -> Iterator[bytes]:
    """An ``error`` event; nothing follows."""
    yield _event("error", error={"type": "overloaded_error", "message": message})


def _event(kind: str, **data: Any) -> bytes:
    return sse({"type": kind, **data}, kind)


def _message(answer: Answer) -> dict[str, Any]:
    return {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": answer.model}


def _ended(answer: Answer) -> dict[str, Any]:
    refused = answer.refusal and not answer.text
    reason = "refusal" if refused else _STOP_REASONS.get(answer.finish or "", "end_turn")
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(answer: Answer, *, done: bool) -> dict[str, Any]:
    """Token counts. Without usage in the reply, an object with 0 output tokens, since clients require an object."""
    prompt, cached, completion = answer.tokens()
    if answer.usage is None:
        return {"output_tokens": 0}
    return {
        "input_tokens": max(prompt - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion if done else min(completion, 1),
    }


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], Iterator[dict[str, Any]]]]:
    """Content blocks as they start, each with its deltas."""
    if answer.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": ""}, _thinking(answer)
    if text := answer.text or answer.refusal:
        yield {"type": "text", "text": ""}, ({"type": "text_delta", "text": piece} for piece in answer.cut(text))
    for call in answer.calls:
        pieces = ["", *answer.cut(call.arguments)]
        yield (
            {**_tool_use(call), "input": {}},
            ({"type": "input_json_delta", "partial_json": piece} for piece in pieces),
        )


def _thinking(answer: Answer) -> Iterator[dict[str, Any]]:
    for piece in answer.cut(answer.reasoning or ""):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": _signature(answer)}


def _signature(answer: Answer) -> str:
    return f"signature-{answer.number}"


def _tool_use(call: NativeCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}
