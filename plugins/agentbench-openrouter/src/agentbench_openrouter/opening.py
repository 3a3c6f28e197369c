"""Finds an error at the beginning of a response that has an HTTP status of success. Pure.

Some servers send the headers before they know whether they can serve the request. Such an error can still be retried if
nothing has been passed on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentbench_openrouter.answers import choice_error

_ERROR_EVENTS = ("", "error", "response.failed")
"""Events that may report an error; events of Chat Completions have no name."""


class FirstEvent:
    """Reads a stream of server-sent events up to the end of its first event."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event = ""
        self._after_return = False
        self.known = False
        """Whether enough of the stream was read to know its first event."""
        self.error: Mapping[str, Any] | None = None
        """The event's data as an error response, if it reports an error."""

    def feed(self, data: bytes) -> None:
        """Read the next piece of the stream."""
        for piece in data.splitlines(keepends=True):
            if self.known:
                return
            is_second_half = self._after_return and piece == b"\n"  # of a line end
            self._after_return = piece.endswith(b"\r")
            if is_second_half:
                continue
            self._line += piece.rstrip(b"\r\n")
            if piece.endswith((b"\r", b"\n")):
                line, self._line = bytes(self._line), bytearray()
                self._read(line)

    def _read(self, line: bytes) -> None:
        if not line:
            if self._data:
                self._judge(b"\n".join(self._data))
            return
        name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
            self.known = self._event not in _ERROR_EVENTS
        elif name == b"data":
            self._data.append(value)

    def _judge(self, text: bytes) -> None:
        self.known = True
        data = json_object(text)
        if data is None:
            named = self._event in _ERROR_EVENTS[1:]
            self.error = {"error": {"message": text.decode("utf-8", "replace")}} if named else None
        else:
            self.error = error_in(data)


def json_object(text: bytes) -> dict[str, Any] | None:
    """A JSON object, or ``None`` for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def error_in(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The response with its error under ``error``, or ``None`` if it is not an error.

    Args:
        data: a response, or the data of an event, of any of the protocols.
    """
    inner = data.get("response")
    if data.get("type") == "response.failed" and isinstance(inner, dict):
        data = inner
        if not data.get("error"):
            return {**data, "error": {"message": "the response failed"}}
    error = data.get("error") or choice_error(data)
    if not error and "error" in (data.get("type"), data.get("object")):
        error = {name: value for name, value in data.items() if (name, value) != ("type", "error")}
    if not error:
        return None
    return {**{name: value for name, value in data.items() if name != "choices"}, "error": error}
