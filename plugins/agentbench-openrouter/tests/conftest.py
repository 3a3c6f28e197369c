"""Fixtures: loopback HTTP servers whose responses a test decides, and a fake clock."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TypeVar

import pytest

from agentbench_testing import FakeClock

Play = Callable[[BaseHTTPRequestHandler], None]
S = TypeVar("S", "Server", "Upstream")


class Server:
    """Calls ``answer`` for every request; ``paths`` and ``authorizations`` record what arrived."""

    def __init__(self) -> None:
        self.answer: Play = lambda request: request.send_error(500)
        self.paths: list[str] = []
        self.authorizations: list[str | None] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                outer.authorizations.append(self.headers["Authorization"])
                try:
                    outer.answer(self)
                except OSError:
                    self.close_connection = True  # the client has disconnected, as some tests intend

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def says(self, body: str, *, status: int = 200, content_type: str = "application/json") -> None:
        """Respond with this body from now on."""

        def play(request: BaseHTTPRequestHandler) -> None:
            data = body.encode()
            request.send_response(status)
            request.send_header("Content-Type", content_type)
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

        self.answer = play


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Deadlines of exchanges use this clock, so that a test can expire them once a request has arrived."""
    clock = FakeClock()
    monkeypatch.setattr("agentbench_openrouter.watchdog.time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset proxy variables, since a proxy cannot reach a loopback server."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def serving(played: S) -> Iterator[S]:
    """Serve in a thread of its own, and end everything afterwards."""
    thread = threading.Thread(target=played.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield played
    played.over.set()
    played.http.shutdown()
    thread.join()
    played.http.server_close()


@pytest.fixture
def server(no_proxy: None) -> Iterator[Server]:
    with serving(Server()) as played:
        yield played


class Posted:
    """One POST request, and the means to respond to it byte by byte."""

    def __init__(self, request: BaseHTTPRequestHandler, number: int, body: bytes) -> None:
        self._request = request
        self.number = number
        self.client = request.client_address
        self.path = request.path
        self.headers = [(name.lower(), value) for name, value in request.headers.items()]
        self.body = body

    def values(self, name: str) -> list[str]:
        """The values of all headers with this name."""
        return [value for known, value in self.headers if known == name]

    def head(
        self, status: int = 200, headers: Mapping[str, str] | None = None, *, kind: str = "text/event-stream"
    ) -> None:
        """Send the headers of a chunked response."""
        fields = {"content-type": kind, "transfer-encoding": "chunked", **(headers or {})}
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in fields.items())]
        self.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def piece(self, data: bytes) -> None:
        """Send a piece of the body."""
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """End the body."""
        self.write(b"0\r\n\r\n")

    def write(self, data: bytes) -> None:
        """Send literal bytes."""
        self._request.wfile.write(data)
        self._request.wfile.flush()

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, kind: str) -> None:
        """Send a whole response."""
        self.head(status, headers, kind=kind)
        if body:
            self.piece(body)
        self.end()

    def hang_up(self) -> None:
        """Close the connection without ending the response."""
        self._request.close_connection = True

    def reset(self) -> None:
        """End the connection with an RST."""
        self._request.close_connection = True
        self._request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._request.connection.close()


class Upstream:
    """Calls ``play`` for every POST request; ``posted`` records them."""

    def __init__(self) -> None:
        self.play: Callable[[Posted], None] = lambda posted: posted.send(500, b"{}", kind="application/json")
        self.posted: list[Posted] = []
        self.over = threading.Event()
        """Set at the end of the test, so that replies that hang end."""
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer._lock:
                    posted = Posted(self, len(outer.posted) + 1, body)
                    outer.posted.append(posted)
                try:
                    outer.play(posted)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.http = Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def plays(self, *plays: Callable[[Posted], None]) -> None:
        """One for each request, in order; the last one for all further requests."""
        self.play = lambda posted: plays[min(posted.number, len(plays)) - 1](posted)


@pytest.fixture
def upstream(no_proxy: None) -> Iterator[Upstream]:
    with serving(Upstream()) as played:
        yield played
