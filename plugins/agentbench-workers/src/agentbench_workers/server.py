"""A coordinator's server: each call from a worker is one HTTP request, answered with lines of JSON.

A request is ``POST /v1/METHOD`` with a JSON object. On the loopback interface, callers present the run's token, which
only processes started by the coordinator have. Elsewhere, TLS certificates authenticate them.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from agentbench_core import InputError
from agentbench_workers.tls import peer_name

Call = Callable[[str, str, Mapping[str, Any]], Iterator[Mapping[str, Any]]]
"""Answers one call, given the worker's identity, the method and the document."""

LARGEST = 32 << 20
"""Maximum bytes of a request."""

_HANDSHAKE_SEC = 10.0
_IDLE_SEC = 120.0
_MOST_CONNECTIONS = 8192
_PATH = "/v1/"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Sent together with the first line of an answer, since each write makes a system call and wakes up the worker."""


class CoordinatorServer(ThreadingHTTPServer):
    """Accepts connections until it is closed.

    Args:
        address: host and port; port 0 for any free one.
        call: answers the calls.
        token: the bearer token that requests must present; empty if TLS authenticates callers.
        context: for TLS; ``None`` on the loopback interface.

    Raises:
        InputError: the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 256
    block_on_close = False

    def __init__(self, address: tuple[str, int], call: Call, token: str, context: ssl.SSLContext | None) -> None:
        self.call = call
        self.token = token
        self.context = context
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, _Handler)
        except (OSError, TypeError, ValueError) as error:  # names that cannot be encoded raise the last two
            raise InputError(
                f"cannot listen on {address[0]}:{address[1]}: {getattr(error, 'strerror', None) or error}",
                remedy="Choose an address of this machine and a free port: --set executor.listen=HOST:PORT",
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="coordinator", daemon=True)

    @property
    def address(self) -> str:
        """``HOST:PORT`` at which it listens."""
        host, port = self.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def start(self) -> None:
        """Start answering."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and close all connections. Idempotent."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse connections beyond a limit that only broken workers reach."""
        with self._lock:
            if len(self._connections) >= _MOST_CONNECTIONS:
                return False
            self._connections.add(request)
        return True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Run the handshake and answer the requests of one connection, in its own thread."""
        wrapped = request
        try:
            request.settimeout(_HANDSHAKE_SEC)
            if self.context is not None:
                wrapped = self.context.wrap_socket(request, server_side=True)
                with self._lock:
                    self._connections.add(wrapped)
            wrapped.settimeout(_IDLE_SEC)
            super().finish_request(wrapped, client_address)
        except (OSError, InputError):
            pass  # the connection broke, or its certificate was refused; the worker shows the reason
        finally:
            with self._lock:
                self._connections -= {request, wrapped}
            with contextlib.suppress(OSError):
                wrapped.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: the worker reports connection errors."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    peer = ""

    def setup(self) -> None:
        """Identify the worker. Raises InputError if its certificate has no name."""
        super().setup()
        if isinstance(self.connection, ssl.SSLSocket):
            self.peer = peer_name(self.connection.getpeercert() or {})

    def do_POST(self) -> None:
        """Answer one call."""
        server = cast(CoordinatorServer, self.server)
        presented = self.headers.get("Authorization", "")
        if server.token and not hmac.compare_digest(presented.encode(), f"Bearer {server.token}".encode()):
            self._refuse(401, "the token of this run is missing or wrong")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > len(str(LARGEST)) or int(length) > LARGEST:
            self._refuse(413, f"a request must have a Content-Length of at most {LARGEST} bytes")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # truncated: not a call, even if the received part is valid
            self.close_connection = True
            return
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or not self.path.startswith(_PATH):
            self._refuse(400, "expected POST /v1/METHOD with a JSON object")
            return
        head = _HEAD
        for part in server.call(self.peer, self.path.removeprefix(_PATH), document):
            line = json.dumps(part).encode() + b"\n"
            self.wfile.write(b"%s%x\r\n%s\r\n" % (head, len(line), line))
            head = b""
        self.wfile.write(head + b"0\r\n\r\n")

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        body = why.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing: every call that matters is recorded as an event of the run."""
