"""A worker's connection to its coordinator."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from agentbench_core import UnavailableError
from agentbench_workers.refusals import refusal

_CONNECT_SEC = 10.0
_SILENCE_SEC = 20.0
"""Slow answers contain a line every 5 s, so this much silence means that the connection is broken."""
_PART_BYTES = 1 << 20
_IDLE_SEC = 60.0
"""Seconds after which an idle connection is no longer reused; the coordinator closes it later."""


class Client:
    """Makes calls. Thread-safe; each call in progress has its own connection.

    Uses the standard library: each model call requires two calls here, and general-purpose HTTP clients use several
    times as much CPU time.

    Args:
        address: ``HOST:PORT`` of the coordinator.
        token: the run's token; empty with TLS.
        context: for TLS; ``None`` on the loopback interface.
    """

    def __init__(self, address: str, token: str, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._context = context
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def call(self, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Make one call, and yield the documents of its answer.

        Raises:
            OSError: the connection is broken; the call can be repeated.
            UnavailableError: the coordinator refuses the connection, or another program listens there. Repeating the
                call does not help.
        """
        content = json.dumps(document).encode()
        connection = response = None
        try:
            connection = self._connection()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have refused a large request
                connection.request("POST", f"/v1/{method}", content, self._headers)
            response = connection.getresponse()
            if response.status != 200:
                why = response.read(2000).decode("utf-8", "replace").strip()[:500]
                raise UnavailableError(f"{self._address} rejected the call {method!r}: {why}")
            for line in _lines(response):
                yield self._document(line)
            if not response.will_close:
                with self._lock:
                    self._idle.append((time.monotonic(), connection))
                connection = None
        except (OSError, http.client.HTTPException) as error:
            refused = refusal(error)
            if refused is not None:
                raise UnavailableError(f"{self._address}: {refused.message}", remedy=refused.remedy) from None
            raise ConnectionError(f"{self._address}: {str(error) or type(error).__name__}") from None
        finally:
            if response is not None:  # it owns the socket if the other side closes the connection
                response.close()
            if connection is not None:
                connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        """The most recently used connection, or a new one. Raises OSError."""
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < _IDLE_SEC:
                    return connection
                connection.close()
        if self._context is None:
            connection = http.client.HTTPConnection(self._address, timeout=_CONNECT_SEC)
        else:
            connection = http.client.HTTPSConnection(self._address, timeout=_CONNECT_SEC, context=self._context)
        connection.connect()
        connection.sock.settimeout(_SILENCE_SEC)
        return connection

    def _document(self, line: bytes) -> Mapping[str, Any]:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._stranger(error) from None
        if not isinstance(document, dict):
            raise self._stranger(f"its answer is {line[:50].decode('utf-8', 'replace')!r}")
        return document

    def _stranger(self, why: object) -> UnavailableError:
        return UnavailableError(
            f"{self._address} is not a coordinator: {why}", remedy="Check the address and the port of the coordinator."
        )


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of an answer. Raises HTTPException if it is truncated, which ``readline`` would not detect."""
    parts: list[bytes] = []
    while data := response.read1(_PART_BYTES):
        first, *further = data.split(b"\n")
        parts.append(first)
        for following in further:
            yield b"".join(parts)
            parts = [following]
    if any(parts):
        raise http.client.IncompleteRead(b"".join(parts))
