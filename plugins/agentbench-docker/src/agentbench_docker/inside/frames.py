"""The message format on standard input and output."""

from __future__ import annotations

import json
import os
import select
from typing import Any


class GoneError(Exception):
    """The harness has closed the connection."""


def read_exactly(descriptor: int, size: int) -> bytes:
    """Read ``size`` bytes. Raises GoneError at the end of the input."""
    data = bytearray()
    while len(data) < size:
        part = os.read(descriptor, min(size - len(data), 1 << 20))
        if not part:
            raise GoneError
        data += part
    return bytes(data)


def receive() -> dict[str, Any]:
    """Read the next request. Raises GoneError at the end of the input."""
    size = int.from_bytes(read_exactly(0, 4), "big")
    request: dict[str, Any] = json.loads(read_exactly(0, size).decode())
    return request


def answer(fields: dict[str, Any], *payloads: bytes) -> None:
    """Send an answer. The field ``sizes`` gives the sizes of the payloads."""
    head = json.dumps({**fields, "sizes": [len(part) for part in payloads]}).encode()
    data = memoryview(len(head).to_bytes(4, "big") + head + b"".join(payloads))
    while data:
        data = data[os.write(1, data) :]


def ready(descriptors: Any, seconds: float) -> Any:
    """Wait up to ``seconds`` until descriptors are readable, and return those that are."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(0, int(seconds * 1000)))]
