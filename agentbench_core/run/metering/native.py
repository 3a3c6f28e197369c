"""The raw responses of forwarded model calls, as evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from agentbench_core.evidence import layout
from agentbench_core.plugin.llm import NativeExchange
from agentbench_core.run.recording import Evidence
from agentbench_core.values.messages import Completion

_LONGEST = 1 << 20
"""Maximum bytes of a line that are held back until the line is complete, so that secrets in it can be found."""


class RecordedExchange:
    """Implements ``NativeExchange``: delegates to the agent's exchange, and writes the response to a file.

    The file consists of one line of JSON, with the status and the headers, and the body. Memory stays flat.
    """

    def __init__(self, inner: NativeExchange, files: Evidence) -> None:
        self._inner = inner
        self._files = files
        self._held = b""
        self.file = ""
        """The path of the file; empty before the response begins."""
        self.call = 0
        """The number of the call; set before the request is sent."""

    @property
    def protocol(self) -> Literal["chat", "responses", "messages"]:
        """See the contract."""
        return self._inner.protocol

    @property
    def path(self) -> str:
        """See the contract."""
        return self._inner.path

    @property
    def body(self) -> bytes:
        """See the contract."""
        return self._inner.body

    @property
    def headers(self) -> Mapping[str, str]:
        """See the contract."""
        return self._inner.headers

    @property
    def has_media(self) -> bool:
        """See the contract."""
        return self._inner.has_media

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """See the contract."""
        if self.file:
            raise ValueError("the response has already begun")
        self.file = layout.native_response(self.call)
        head = json.dumps({"status": status, "headers": dict(headers)}, sort_keys=True)
        self._files.append(self.file, head.encode() + b"\n")
        self._inner.started(status, headers)

    def received(self, data: bytes) -> None:
        """See the contract."""
        if not self.file:
            raise ValueError("the response has not begun")
        self._inner.received(data)  # first, since the agent waits for it
        lines, newline, rest = (self._held + data).rpartition(b"\n")
        if len(rest) > _LONGEST:
            lines, newline, rest = lines + newline + rest, b"", b""
        self._held = rest
        if lines or newline:
            self._files.append(self.file, lines + newline)

    def completed(self) -> Completion:
        """See the contract."""
        self.close()
        return self._inner.completed()

    def close(self) -> None:
        """Write the last, incomplete line."""
        held, self._held = self._held, b""
        if held:
            self._files.append(self.file, held)
