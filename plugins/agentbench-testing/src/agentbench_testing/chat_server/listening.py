"""HTTP/1.1 connections on loopback, each with its own thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentbench_testing.chat_server.replies import Reply
from agentbench_testing.chat_server.sending import GoneError, send

_PATIENCE_SEC = 5.0
"""Maximum seconds to wait for connections to end when the server closes."""
_LOOK_EVERY_SEC = 0.05


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names are lowercase."""
    body: bytes
    connection: int
    """The number of the connection, from 1."""


class Listener:
    """Accepts connections, gets a reply for each HTTP request, and sends it. Thread-safe."""

    def __init__(self, port: int, reply_to: Callable[[Arrival], Reply]) -> None:
        self._http = _Http(port, reply_to)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_LOOK_EVERY_SEC,), name="loopback", daemon=True
        )
        self.port: int = self._http.server_port

    @property
    def most_at_once(self) -> int:
        """The largest number of requests that were processed at the same time."""
        return self._http.peak

    def start(self) -> None:
        """Start accepting."""
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, end every connection, and wait for their threads. Idempotent."""
        self._http.closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self._http.end_connections()


class _Http(ThreadingHTTPServer):
    """Tracks its connections, so that they can be ended."""

    daemon_threads = True
    request_queue_size = 1024  # hundreds of clients may connect at the same time

    def __init__(self, port: int, reply_to: Callable[[Arrival], Reply]) -> None:
        self.reply_to = reply_to
        self.closing = threading.Event()
        self.peak = 0
        self._under_way = 0
        self._accepted = 0
        self._open: dict[socket.socket, int] = {}
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Only bind: HTTPServer would also resolve the name of 127.0.0.1."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a connection."""
        with self._changed:
            self._accepted += 1
            self._open[request] = self._accepted
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        super().shutdown_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()

    def number_of(self, request: socket.socket) -> int:
        """The number of this connection."""
        with self._changed:
            return self._open[request]

    def end_connections(self) -> None:
        """End all connections, and wait until their threads are done."""
        with self._changed:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, _PATIENCE_SEC)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count a request as in progress."""
        with self._changed:
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1

    def pause(self, seconds: float) -> None:
        """Sleep. Raises GoneError if the server is closed or closes in the meantime."""
        if self.closing.wait(seconds):
            raise GoneError


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def do_GET(self) -> None:
        """Reply."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Read a body, and reply."""
        self._answer(self._body())

    def handle(self) -> None:
        """Reply until the client disconnects, or a reply ends the connection."""
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Log nothing, since the server has a list of its requests."""

    def _answer(self, body: bytes) -> None:
        arrival = Arrival(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            connection=self.server.number_of(self.connection),
        )
        with self.server.counting():
            try:
                send(self.server.reply_to(arrival), self.connection, self.server.pause)
            except GoneError:
                self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)
