"""Lines of JSON over pipes, which the coordinator exchanges with its child processes."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 1 << 20
"""Maximum number of bytes of a line."""


class Output:
    """The standard output of this process, for messages only; all other printed text goes to its log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one message. If the reader is gone, do nothing, since this process will also end."""
        with self._lock:
            try:
                self._out.write(line(message))
                self._out.flush()
            except BrokenPipeError:
                pass


def line(message: Mapping[str, Any]) -> bytes:
    """A message as one line."""
    return json.dumps(message).encode() + b"\n"


def messages() -> Iterator[dict[str, Any]]:
    """The messages in the standard input of this process, until it is closed."""
    while data := sys.stdin.buffer.readline(LONGEST):
        yield parsed(data)


def parsed(data: bytes) -> dict[str, Any]:
    """The message in a line. Raises ValueError."""
    try:
        message = json.loads(data)
    except RecursionError:
        raise ValueError("a message is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("a message is not an object")
    return message
