"""Shared by the readers of the three protocols: bytes, errors, usage."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import attrs

from agentbench_bridge.protocols.sse import Event, EventParser
from agentbench_core import Completion, Message, Usage

MAX_RESPONSE = 64 * 2**20
"""Maximum number of bytes of a response without streaming."""
MAX_STREAM = 4 * MAX_RESPONSE
"""Maximum number of bytes of a stream: each piece of the content has its own event."""
_MAX_ERROR = 2**20
_MOST_SHOWN = 2_000
"""Maximum number of characters of an error message."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|maximum context length"
    r"|prompt is too long|input is too long|prompt too long|context (?:window|length|limit|size)"
    r"|too many (?:input )?tokens|(?:input|prompt) tokens? (?:count )?exceeds?|request_too_large"
    r"|string_above_max_length",
    re.IGNORECASE,
)
"""In codes and messages: the request exceeds the context window."""
_POLICY_CODES = re.compile(r"content_?(?:policy|filter)|polic(?:y|ies)_?violation|moderation|refusal|safety")
_POLICY_TEXT = re.compile(r"usage polic|content (?:\w+ )?polic|content filter|flagged|moderation", re.IGNORECASE)
_INVALID = re.compile(r"invalid_(?:request|prompt)|bad_?request|request_too_large|400|413|422")
_SERVER = re.compile(r"(?:internal_)?server(?:_error)?|api_error|500|502")
_OTHERS = re.compile(
    r"rate_?limit|too_many_requests|overload|capacity|unavailable|time_?d?_?out|quota|credit|billing|payment|auth"
    r"|api_key|permission|not_found|[1-9][0-9]{2}"
)
"""Codes of errors that the request does not cause, unless they are in one of the patterns above."""
_DEEPEST = 200
_LONGEST_NUMBER = 4_000
"""Maximum number of digits of an integer; Python does not write longer ones."""
_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
"""Strings and brackets in JSON."""
_MOST_TOKENS = 10**12


RequestFailure = Literal["context_overflow", "refusal", "rejected"]


class ReportedError(ValueError):
    """An error that a server reports in a stream or in a body."""

    def __init__(self, text: str, response: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.response = response  #: the object with the error; it may have a ``usage``


class Reader(Protocol):
    """Parses a response while it arrives."""

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """The status and the headers, before any data; lowercase names."""

    def received(self, data: bytes) -> None:
        """The next bytes of the body."""

    def completed(self) -> Completion:
        """The response, after its last byte.

        Raises ValueError if it is incomplete or malformed, or if it reports a failure that the request did not cause.
        """


class Collector(Protocol):
    """Combines the events of a stream into the response that the server would have sent without streaming."""

    def add(self, event: Event) -> None:
        """The next event. Raises ValueError if it is malformed, or reports a failure."""

    def response(self) -> Mapping[str, Any]:
        """The response. Raises ValueError if the stream was incomplete."""


class Interpret(Protocol):
    """Turns a response into a completion."""

    def __call__(self, response: Mapping[str, Any]) -> Completion:
        """Raises ValueError for failures; other exceptions mean that the response is malformed."""


@attrs.define(kw_only=True)
class ResponseReader:
    """A :class:`Reader`."""

    collector: Collector
    interpret: Interpret
    stream: bool  #: whether a stream was requested
    _status: int = attrs.field(default=200, init=False)
    _events: EventParser = attrs.field(factory=EventParser, init=False)
    _body: bytearray = attrs.field(factory=bytearray, init=False)
    _size: int = attrs.field(default=0, init=False)
    _failure: ValueError | None = attrs.field(default=None, init=False)

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """The status and the headers; the content type decides whether the body is a stream."""
        self._status = status
        kind = headers.get("content-type", "").lower()
        if status >= 400 or "json" in kind:
            self.stream = False
        elif "event-stream" in kind:
            self.stream = True

    def received(self, data: bytes) -> None:
        """The next bytes. Never raises, since they are also passed on to the agent."""
        self._size += len(data)
        if self._status >= 400:
            self._body += data[: _MAX_ERROR - len(self._body)]
            return
        if self._failure:
            return
        most = MAX_STREAM if self.stream else MAX_RESPONSE
        if self._size > most:
            self._failure = ValueError(f"the response is larger than {most // 2**20} MiB")
            self._body.clear()
        elif self.stream:
            self._add(self._events.feed(data))
        else:
            self._body += data

    def completed(self) -> Completion:
        """The response. Raises ValueError."""
        if self._status >= 400:
            return rejection(self._status, bytes(self._body))
        if not 200 <= self._status < 300:
            raise ValueError(f"the server responded with status {self._status}")
        if self.stream:
            self._add(self._events.close())
        try:
            return self._completion()
        except ReportedError as error:
            finish = request_failure(error.response)
            if finish is None:
                raise
            return failed(finish, error.response)

    def _completion(self) -> Completion:
        if self._failure is not None:
            raise self._failure
        response = self.collector.response() if self.stream else loaded(bytes(self._body))
        if response.get("error"):
            raise ReportedError(f"the server reported an error: {error_text(response)}", response)
        try:
            return self.interpret(response)
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
            raise ValueError(f"the response is malformed: {error!r:.200}") from None

    def _add(self, events: list[Event]) -> None:
        for event in events:
            if self._failure:
                return
            try:
                self.collector.add(event)
            except ValueError as error:
                self._failure = error
            except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
                self._failure = ValueError(f"the stream contains a malformed event: {error!r:.200}")


def loaded(text: bytes | str) -> dict[str, Any]:
    """The JSON object in a response, with null for NaN, infinite, too long and too deeply nested values.

    Raises ValueError.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        try:
            value = _DECODER.decode(text)
        except RecursionError:
            value = _DECODER.decode(_shallow(text))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the response is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("the response is not a JSON object")
    return value


def _no_number(name: str) -> None:
    """The value of NaN and Infinity, which some servers send, and which cannot be written as JSON."""


def _finite(written: str) -> float | None:
    value = float(written)
    return value if math.isfinite(value) else None


def _whole(written: str) -> int | None:
    return int(written) if len(written) <= _LONGEST_NUMBER else None


def _shallow(text: str) -> str:
    """JSON with null for all containers below :data:`_DEEPEST`."""
    kept: list[str] = []
    depth = position = 0
    for token in _TOKENS.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == _DEEPEST + 1:
                kept += (text[position : token.start()], "null")
        elif token[0] in ("]", "}"):
            if depth == _DEEPEST + 1:
                position = token.end()
            depth -= 1
    return "".join(kept) + text[position:] if depth <= _DEEPEST else text


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite, parse_int=_whole)


def rejection(status: int, body: bytes) -> Completion:
    """The completion for a response with an error status: the request was too long, or otherwise invalid."""
    try:
        text = error_text(loaded(body))
    except ValueError:
        text = body.decode("utf-8", "replace").strip()
    text = text[:_MOST_SHOWN] or f"status {status}"
    finish: Any = "context_overflow" if status in (400, 413, 422) and _TOO_LONG.search(text) else "rejected"
    return Completion(
        message=Message(role="assistant", content=text, opaque={"status": status}),
        finish=finish,
        usage=Usage(cost_usd=0.0),
    )


def error_text(response: Mapping[str, Any]) -> str:
    """The code and the message of an error in any of the known forms."""
    error = response.get("error")
    if isinstance(error, str):
        return error[:_MOST_SHOWN]
    fields = error if isinstance(error, dict) else response
    values = [fields.get(name) for name in ("code", "type", "message", "detail")]
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        values.append(metadata.get("raw"))
    words = [str(value)[:_MOST_SHOWN] for value in values if _is_word(value)]
    return ": ".join(dict.fromkeys(words))[:_MOST_SHOWN]


def _is_word(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) < 10**9
    return isinstance(value, str) and value not in ("", "error")


def request_failure(response: Mapping[str, Any]) -> RequestFailure | None:
    """How a response ends if the request caused its error; ``None`` for server errors and unknown errors."""
    error = response.get("error")
    fields = error if isinstance(error, dict) else response
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = [fields.get("code"), fields.get("type"), fields.get("error_type"), metadata.get("error_type")]
    codes = [str(name)[:100].lower() for name in named if _is_word(name)]
    if any(_TOO_LONG.search(code) for code in codes):
        return "context_overflow"
    flagged = "403" in codes and bool(metadata.get("reasons") or metadata.get("flagged_input"))
    if flagged or any(_POLICY_CODES.search(code) for code in codes):
        return "refusal"
    others = [code for code in codes if not _INVALID.match(code)]
    if any(_OTHERS.search(code) for code in others if not _SERVER.fullmatch(code)):
        return None
    text = error_text(response)
    if _TOO_LONG.search(text):
        return "context_overflow"
    if not any(_INVALID.match(code) for code in codes):
        return None
    return "refusal" if _POLICY_TEXT.search(text) else "rejected"


def failed(finish: RequestFailure, response: Mapping[str, Any]) -> Completion:
    """The completion for an error that the request caused, and that a response reports after it began.

    Requests that are too long fail before any output: they are free if the server reports no usage.
    """
    reported = response.get("usage")
    own = isinstance(reported, dict) and "input_tokens" in reported
    known = usage(
        reported,
        prompt=("input_tokens",) if own else ("prompt_tokens",),
        completion="output_tokens" if own else "completion_tokens",
        cached=("input_tokens_details" if own else "prompt_tokens_details", "cached_tokens"),
    )
    if known is None and finish == "context_overflow":
        known = Usage(cost_usd=0.0)
    return Completion(message=Message(role="assistant", content=error_text(response)), finish=finish, usage=known)


def usage(
    reported: object, *, prompt: tuple[str, ...], completion: str, cached: tuple[str, ...], added: tuple[str, ...] = ()
) -> Usage | None:
    """The usage of a response; ``None`` if it contains neither a cost nor both token counts.

    Args:
        reported: the ``usage`` object.
        prompt: path of the number of input tokens.
        completion: field with the number of output tokens.
        cached: path of the number of cached tokens.
        added: fields with input tokens that the number of input tokens does not include.
    """
    if not isinstance(reported, dict):
        return None
    inputs, outputs = count(at(reported, prompt)), count(reported.get(completion))
    cost = _cost(reported)
    if cost is None and (inputs is None or outputs is None):
        return None
    return Usage(
        prompt_tokens=(inputs or 0) + sum(count(reported.get(name)) or 0 for name in added),
        completion_tokens=outputs or 0,
        cached_tokens=count(at(reported, cached)) or 0,
        cost_usd=cost,
    )


def _cost(reported: Mapping[str, Any]) -> float | None:
    """The cost in USD, as reported by OpenRouter: for the user's own key, the fee plus the provider's cost."""
    cost = amount(reported.get("cost"))
    if cost is None or reported.get("is_byok") is not True:
        return cost
    upstream = amount(at(reported, ("cost_details", "upstream_inference_cost")))
    return None if upstream is None else cost + upstream


def at(value: object, path: tuple[str, ...]) -> object:
    """The value at a path of names; ``None`` if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def count(value: object) -> int | None:
    """A number of tokens; ``None`` for anything else."""
    found = amount(value)
    return int(found) if found is not None and found < _MOST_TOKENS else None


def amount(value: object) -> float | None:
    """A non-negative finite number; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def ended(reason: Any, message: Message) -> Any:
    """The finish reason of a response: ``empty`` without text and calls; ``tool_calls`` if there are calls."""
    if reason not in ("stop", "tool_calls"):
        return reason
    if message.tool_calls:
        return "tool_calls"
    return "stop" if message.content.strip() else "empty"
