"""Connections of clients: their maximum number, and the answer after a protocol error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import struct
import traceback
from collections.abc import Callable
from typing import Any

from aiohttp import web

from agentbench_bridge.protocols import error_body

LOGGER = logging.getLogger("agentbench_bridge.gateway")
"""Receives the logs of the HTTP library and asyncio. Nothing is written to standard error."""
LOGGER.addHandler(logging.NullHandler())
LOGGER.propagate = False

SERVER = {"server": "agentbench"}
"""Replaces the header that names the HTTP library and its version."""
_FEWEST = 16
"""Connections that every attempt can have, even if the process can open only few files."""


def reset(transport: asyncio.BaseTransport | None) -> None:
    """Close a connection at once, and drop data that its peer has not read, also in the kernel."""
    if isinstance(transport, asyncio.Transport):
        connection = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


class Listeners:
    """Counts the open listeners of the process, which share its file descriptors."""

    def __init__(self) -> None:
        self.open = 0  #: number of listeners

    def share(self, most: int) -> int:
        """Maximum number of connections of a listener. All listeners share a quarter of the descriptors."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return most
        return min(most, max(_FEWEST, files // 4 // max(1, self.open)))


class Connection(web.RequestHandler):
    """A connection to one listener. It is closed at once if the listener has too many."""

    __slots__ = ("_accepted", "_connections", "_most", "_refused")

    def __init__(
        self,
        server: web.Server,
        *,
        connections: set[Connection],
        most: Callable[[], int],
        refused: Callable[[str], None],
        **options: Any,
    ) -> None:
        super().__init__(server, logger=LOGGER, access_log=None, **options)  # type: ignore[arg-type] # None: no log
        self._connections = connections
        self._most = most
        self._refused = refused
        self._accepted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it."""
        if len(self._connections) >= self._most():
            self._refused(f"a connection, because {len(self._connections)} are already open")
            reset(transport)
            return
        self._accepted = True
        self._connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count the connection as closed."""
        if self._accepted:
            self._connections.discard(self)
            super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection without sending the remaining data."""
        reset(self.transport)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a malformed request, and to errors of the gateway, without details or parts of the request."""
        if isinstance(exc, ConnectionError):  # the client has disconnected, or its answer is incomplete: already noted
            raise exc
        trace = "".join(traceback.format_exception(exc)) if exc and status >= 500 else type(exc).__name__
        self._refused(f"a request with status {status}: {trace}")
        if request.writer.output_size > 0:
            raise ConnectionError("a response has already been started")
        kind, text = (
            ("api_error", "the gateway failed") if status >= 500 else ("invalid_request_error", "malformed HTTP")
        )
        body = error_body("chat", status, kind, text)
        response = web.Response(status=status, body=body, content_type="application/json", headers=SERVER)
        response.force_close()
        return response
