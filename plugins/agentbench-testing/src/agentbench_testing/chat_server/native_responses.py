"""The Responses protocol: a response, or its stream of events.

Calls are sent as the kind of item that the offered tool requires: function, ``custom`` (the argument ``input`` is the
free text), ``local_shell`` (the arguments are the action), or one of these in a namespace (``NAMESPACE.NAME``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentbench_testing.chat_server.native import CREATED, Answer, NativeCall, sse

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}
"""Fields that a response repeats from the request, with their defaults."""


def body(answer: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response."""
    return _response(answer, request, _items(answer, request), _status(answer))


def events(answer: Answer, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The events from ``response.created`` to ``response.completed`` or ``response.incomplete``."""
    items = _items(answer, request)
    numbers = itertools.count()

    def event(kind: str, **data: Any) -> bytes:
        return sse({"type": kind, "sequence_number": next(numbers), **data}, kind)

    started = _response(answer, request, (), "in_progress")
    yield event("response.created", response=started)
    yield event("response.in_progress", response=started)
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        place = {"item_id": item["id"], "output_index": index}
        for kind, data in _DETAILS.get(item["type"], _nothing)(item, answer):
            yield event(kind, **place, **data)
        yield event("response.output_item.done", output_index=index, item=item)
    status = _status(answer)
    yield event(f"response.{status}", response=_response(answer, request, items, status))


def error_events(message: str, answer: Answer, request: Mapping[str, Any], sent: int) -> Iterator[bytes]:
    """An ``error`` event, then ``response.failed``."""
    error = {"code": "server_error", "message": message}
    yield sse({"type": "error", "sequence_number": sent, **error, "param": None}, "error")
    failed = {**_response(answer, request, (), "failed"), "error": error}
    yield sse({"type": "response.failed", "sequence_number": sent + 1, "response": failed}, "response.failed")


def _status(answer: Answer) -> str:
    return "incomplete" if answer.finish in _INCOMPLETE else "completed"


def _response(
    answer: Answer, request: Mapping[str, Any], items: Sequence[Mapping[str, Any]], status: str
) -> dict[str, Any]:
    ended = status in ("completed", "incomplete")
    reason = _INCOMPLETE.get(answer.finish or "") if status == "incomplete" else None
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": answer.model,
        "output": list(items),
        "service_tier": "default",
        "store": False,
        "usage": _usage(answer) if ended else None,
        "user": None,
        **{name: request.get(name, default) for name, default in _ECHOED.items()},
    }


def _usage(answer: Answer) -> dict[str, Any] | None:
    if answer.usage is None:
        return None
    prompt, cached, completion = answer.tokens()
    details = answer.usage.get("completion_tokens_details") or {}
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": details.get("reasoning_tokens") or 0},
        "total_tokens": prompt + completion,
    }


def _items(answer: Answer, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The complete output."""
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        encrypted = f"encrypted-{answer.number}"
        items.append(
            {"id": f"rs_{answer.number}", "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
        )
    parts: list[dict[str, Any]] = []
    if answer.text:
        parts.append({"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []})
    if answer.refusal:
        parts.append({"type": "refusal", "refusal": answer.refusal})
    if parts:
        about = {"id": f"msg_{answer.number}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**about, "content": parts})
    kinds = _kinds(request)
    return items + [_call(call, kinds, f"{answer.number}_{number}") for number, call in enumerate(answer.calls)]


def offered_tools(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tools of a request, including tools in items of its input, where some OpenAI clients put them."""
    items = request.get("input")
    added = [item for item in items if item.get("type") == "additional_tools"] if isinstance(items, list) else []
    return [tool for where in (request, *added) for tool in where.get("tools") or ()]


def _kinds(request: Mapping[str, Any]) -> dict[str, str]:
    """The type of each tool, by its name, which starts with its namespace, if any."""
    kinds: dict[str, str] = {}
    for tool in offered_tools(request):
        kind, name = tool.get("type"), tool.get("name")
        if kind == "namespace":
            kinds |= {f"{name}.{inner.get('name')}": str(inner.get("type")) for inner in tool.get("tools") or ()}
        else:
            kinds[str(name or kind)] = str(kind)
    return kinds


def _call(call: NativeCall, kinds: Mapping[str, str], number: str) -> dict[str, Any]:
    kind = kinds.get(call.name, "function")
    common: dict[str, Any] = {"status": "completed", "call_id": call.id}
    if kind == "local_shell":
        action = {"type": "exec", "command": [], "env": {}, **call.value()}
        return {"id": f"lsh_{number}", "type": "local_shell_call", **common, "action": action}
    namespace, _, name = call.name.rpartition(".") if call.name in kinds else ("", "", call.name)
    common |= {"name": name, **({"namespace": namespace} if namespace else {})}
    if kind == "custom":
        text = call.value().get("input")
        text = text if isinstance(text, str) else call.arguments
        return {"id": f"ctc_{number}", "type": "custom_tool_call", **common, "input": text}
    return {"id": f"fc_{number}", "type": "function_call", **common, "arguments": call.arguments}


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as it is first announced, without its content."""
    empty = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
    return {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}


_Details = Iterator[tuple[str, dict[str, Any]]]


def _nothing(item: Mapping[str, Any], answer: Answer) -> _Details:
    return iter(())


def _message(item: Mapping[str, Any], answer: Answer) -> _Details:
    for index, part in enumerate(item["content"]):
        place = {"content_index": index}
        field, kind = ("text", "output_text") if part["type"] == "output_text" else ("refusal", "refusal")
        more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
        yield "response.content_part.added", {**place, "part": {**part, field: ""}}
        for piece in answer.cut(part[field]):
            yield f"response.{kind}.delta", {**place, "delta": piece, **more}
        yield f"response.{kind}.done", {**place, field: part[field], **more}
        yield "response.content_part.done", {**place, "part": part}


def _reasoning(item: Mapping[str, Any], answer: Answer) -> _Details:
    for index, part in enumerate(item["summary"]):
        place = {"summary_index": index}
        yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
        for piece in answer.cut(part["text"]):
            yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
        yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**place, "part": part}


def _function(item: Mapping[str, Any], answer: Answer) -> _Details:
    for piece in answer.cut(item["arguments"]):
        yield "response.function_call_arguments.delta", {"delta": piece}
    yield "response.function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}


def _custom(item: Mapping[str, Any], answer: Answer) -> _Details:
    for piece in answer.cut(item["input"]):
        yield "response.custom_tool_call_input.delta", {"delta": piece}
    yield "response.custom_tool_call_input.done", {"input": item["input"]}


_DETAILS = {"message": _message, "reasoning": _reasoning, "function_call": _function, "custom_tool_call": _custom}
