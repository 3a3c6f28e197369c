"""Fixtures: a loopback HTTP server whose responses a test decides, and a fake clock."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from agentbench_testing import FakeClock

Play = Callable[[BaseHTTPRequestHandler], None]


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


@pytest.fixture
def server(no_proxy: None) -> Iterator[Server]:
    played = Server()
    thread = threading.Thread(target=played.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield played
    played.over.set()
    played.http.shutdown()
    thread.join()
    played.http.server_close()
