"""What a loopback server answers, as values: answers, errors, and what goes wrong on the way."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

COUNTED = "counted"
"""Usage that the server counts itself, with the prices of its list of models."""
ABSENT = "absent"
"""A field that is left out, unlike ``None``, which is sent as null."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One HTTP response, and what happens to it on the wire. Times are in seconds.

    ``hang``, ``reset`` and ``close`` strike after ``sent`` bytes of the response, header included: before any, unless
    told otherwise. Everything that strikes, and ``truncate``, ends the connection.
    """

    status: int = 200
    json: Any = None
    """The body, unless ``raw`` is there."""
    raw: bytes | None = None
    """A body as it is."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    filled: bool = False
    """The server fills in what is left out: the id, ids of tool calls, and usage."""

    delay: float = 0.0
    """Before anything is sent."""
    padding: int = 0
    """Bytes of white space in front of the body, as gateways send it to keep a connection alive."""
    drip: float = 0.0
    """Between one piece of the body and the next; 0 sends everything at once."""
    drip_headers: bool = False
    """Let the header drip as well."""
    piece: int = 1
    """Bytes in a piece."""
    chunked: bool = False
    """Chunks instead of a length: one, or one for each piece."""
    truncate: int = 0
    """Bytes that the length promises, and that never come."""
    hang: bool = False
    """Send no more and keep the connection open, until the client or the server ends it."""
    reset: bool = False
    """Reset the connection (RST)."""
    close: bool = False
    """Close the connection without more words."""
    sent: int = 0
    """Bytes of the response that go out before hang, reset or close."""
    last: bool = False
    """Close the connection after this response without announcing it."""

    def body(self) -> bytes:
        """The body, with its padding."""
        text = self.raw if self.raw is not None else json_format.dumps(self.json, ensure_ascii=False).encode()
        return b" " * self.padding + text


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call of an answer. ``arguments`` go out as JSON text; a string or null goes out as it is."""

    name: str
    arguments: Mapping[str, Any] | str | None = field(default_factory=dict)
    id: str | None = None
    """``None``: the server makes one."""


def call(name: str, arguments: Mapping[str, Any] | str | None = None, *, id: str | None = None) -> Call:  # noqa: A002
    """A tool call; without arguments they are an empty object."""
    return Call(name=name, arguments={} if arguments is None else arguments, id=id)


def answer(
    text: str | None = None,
    *,
    tool_calls: Sequence[Call] = (),
    usage: Mapping[str, Any] | str | None = COUNTED,
    finish: str | None = ABSENT,
    provider: str | None = "Loopback",
    model: str | None = ABSENT,
    reasoning: str | None = None,
    reasoning_details: Sequence[Mapping[str, Any]] | None = None,
    refusal: str | None = None,
    **faults: Any,
) -> Reply:
    """A completion, as OpenRouter words it.

    Args:
        text: the message's content.
        tool_calls: see :func:`call`.
        usage: ``COUNTED``, ``ABSENT``, null, or the block as it is.
        finish: ``finish_reason``; ``ABSENT`` is what fits: ``tool_calls`` or ``stop``.
        provider: who answers behind the server; null leaves the field out.
        model: ``ABSENT`` names the model that the request asks for.
        reasoning: the message's ``reasoning``.
        reasoning_details: to be echoed by the client.
        refusal: the message's ``refusal``.
        **faults: fields of :class:`Reply`.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
    if reasoning is not None:
        message["reasoning"] = reasoning
    if reasoning_details is not None:
        message["reasoning_details"] = [dict(entry) for entry in reasoning_details]
    if tool_calls:
        message["tool_calls"] = [_tool_call(index, asked) for index, asked in enumerate(tool_calls)]
    ended = ("tool_calls" if tool_calls else "stop") if finish == ABSENT else finish
    body: dict[str, Any] = {"object": "chat.completion", "created": 1_700_000_000, "system_fingerprint": None}
    if model != ABSENT:
        body["model"] = model
    if provider is not None:
        body["provider"] = provider
    body["choices"] = [
        {"index": 0, "message": message, "finish_reason": ended, "native_finish_reason": ended, "logprobs": None}
    ]
    if usage != COUNTED:
        body["usage"] = usage
    return Reply(json=body, filled=True, **faults)


def _tool_call(index: int, asked: Call) -> dict[str, Any]:
    arguments = asked.arguments
    text = json_format.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else arguments
    return {"id": asked.id, "type": "function", "index": index, "function": {"name": asked.name, "arguments": text}}


def error(
    status: int,
    message: str = "something went wrong",
    *,
    code: int | str | None = None,
    error_type: str = "",
    type_place: Literal["metadata", "error"] = "metadata",
    metadata: Mapping[str, Any] | None = None,
    availability: Mapping[str, Any] | None = None,
    http_status: int | None = None,
    place: Literal["top", "choice"] = "top",
    partial: str | None = None,
    around: Mapping[str, Any] | None = None,
    **faults: Any,
) -> Reply:
    """An error, in any of the places and forms that OpenRouter has for one.

    Args:
        status: HTTP status, and the error's code.
        message: in words.
        code: another code than the status, such as ``"server_error"``; ``ABSENT`` leaves it out.
        error_type: the stable word, such as ``rate_limit_exceeded``.
        type_place: whether ``error_type`` stands in the metadata or beside the message.
        metadata: for instance ``provider_name``, ``raw``, ``headers``.
        availability: for instance ``{"retryable": True, "retry_after": 2}``.
        http_status: of the response, when it is another: 200 after a provider was asked.
        place: at the top of the body, or in ``choices[0]`` (and then in a 200).
        partial: text that came before the error, in ``choices[0]``.
        around: more fields of the body, such as ``{"choices": []}`` or ``{"usage": {...}}``.
        **faults: fields of :class:`Reply`, ``headers`` among them.
    """
    said: dict[str, Any] = {"message": message}
    if code != ABSENT:
        said["code"] = status if code is None else code
    details = dict(metadata or {})
    if error_type:
        (details if type_place == "metadata" else said)["error_type"] = error_type
    if metadata is not None or details:
        said["metadata"] = details
    if availability is not None:
        said["availability"] = dict(availability)
    if place == "top":
        body: dict[str, Any] = {"error": said, **(around or {})}
        return Reply(status=status if http_status is None else http_status, json=body, **faults)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": partial},
        "finish_reason": "error",
        "native_finish_reason": "ERROR",
        "error": said,
    }
    return Reply(json={"provider": "Loopback", "choices": [choice], **(around or {})}, filled=True, **faults)
