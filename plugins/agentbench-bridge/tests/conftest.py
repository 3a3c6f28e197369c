"""Fixtures: a gateway on loopback whose provider a test plays, and clients."""

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from agentbench_bridge.gateway import BridgedAttempt, Gateway, OpenEndpoint, Settings
from agentbench_bridge.protocols import Limits, ModelMap
from agentbench_core import (
    AgentTurnStarted,
    AttemptContext,
    Budget,
    Completion,
    Deadline,
    EventLog,
    NativeExchange,
    ProgramContext,
    ProgramSandbox,
    Request,
    ToolCall,
    ToolResult,
    Warning_,
)
from agentbench_testing.fixtures import (
    make_suite as make_suite,
    make_task as make_task,
    run_agentbench as run_agentbench,
)

Play = Callable[[NativeExchange], Completion]
LONG = 30.0
"""Seconds: much longer than anything here takes, even on a slow machine."""


def answered(exchange: NativeExchange, body: bytes, *, status: int = 200, kind: str = "application/json") -> Completion:
    """Pass a whole answer on."""
    exchange.started(status, {"content-type": kind})
    exchange.received(body)
    return exchange.completed()


def chat_answer(text: str = "hello", calls: list[dict[str, Any]] | None = None) -> bytes:
    """A Chat Completions answer."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return json.dumps(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    ).encode()


class Events(EventLog):
    """Records warnings and turns."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.turns: list[int] = []

    def emit(self, event: Any) -> None:
        if isinstance(event, AgentTurnStarted):
            self.turns.append(event.turn)
        else:
            assert isinstance(event, Warning_)
            self.warnings.append(event.message)


class NoTools:
    specs = ()

    def call(self, call: ToolCall) -> ToolResult:
        raise AssertionError("a program has its own tools")


class Attempt:
    """An attempt that is being served. ``play`` is the provider."""

    def __init__(self, gateway: Gateway, play: Play | None = None, listener: socket.socket | None = None) -> None:
        self.play: Play = play or (lambda exchange: answered(exchange, chat_answer()))
        self.forwarded: list[tuple[Request, NativeExchange]] = []
        self.observed: list[ToolCall] = []
        self.results: dict[str, ToolResult] = {}
        self.happened: queue.Queue[str] = queue.Queue()
        self.labels: dict[str, str] = {}
        self.events = Events()
        self.on_observe: Callable[[ToolCall], None] = lambda call: None
        context = AttemptContext(
            instruction="fix it", failure_output="", failing_command="false", tools=NoTools(), budget=Budget(),
            deadline=Deadline(LONG), log=self.events,
            program=ProgramContext(
                sandbox=cast(ProgramSandbox, None), model=None, forward=self._forward, observe=self._observe,
                save=lambda name, data: None, label=self.labels.__setitem__,
            ),
        )  # fmt: skip
        self.bridged = BridgedAttempt(
            context=context,
            models=ModelMap(names={"asked": "given"}),
            limits=Limits(max_tokens=1000, temperature=None, top_p=None),
            presented=("asked", "vendor/other"),
        )
        self.listener = listener or socket.create_server(("127.0.0.1", 0), backlog=1024)
        address = self.listener.getsockname()
        self.port: int = address[1] if isinstance(address, tuple) else 0
        self.url = f"http://127.0.0.1:{self.port}"
        self.secret = self.bridged.secret
        self.endpoint: OpenEndpoint = gateway.open(self.listener, self.bridged)
        self.http = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.secret}"},
            timeout=LONG,
            trust_env=False,
            verify=False,  # loading certificates takes longer than a test
        )

    def _forward(self, request: Request, native: NativeExchange) -> Completion:
        self.forwarded.append((request, native))
        self.happened.put("forwarded")
        return self.play(native)

    def _observe(self, call: ToolCall) -> Callable[[ToolResult], None]:
        self.on_observe(call)
        self.observed.append(call)
        return lambda result: self.results.__setitem__(call.id, result)

    def post(
        self, body: dict[str, Any] | bytes | None = None, path: str = "/v1/chat/completions", **headers: str
    ) -> Any:
        """A request of a plain client."""
        content = body if isinstance(body, bytes) else json.dumps(body or self.chat()).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.http.post(path, content=content, headers={"content-type": "application/json", **named})

    def chat(self, text: str = "hi", **fields: Any) -> dict[str, Any]:
        """The body of a Chat Completions request."""
        return {"model": "asked", "messages": [{"role": "user", "content": text}], **fields}

    def connect(self) -> socket.socket:
        """A plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LONG)

    def raw(self, data: bytes) -> bytes:
        """Everything that the gateway sends in answer to these bytes until it closes the connection."""
        with self.connect() as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data)
            return received(connection)

    def head(self, *lines: str, path: str = "/v1/chat/completions", method: str = "POST") -> bytes:
        """The head of a request with the secret."""
        own = (f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {self.secret}")
        return "\r\n".join((*own, *lines, "", "")).encode("latin-1")

    def close(self) -> None:
        self.http.close()
        self.endpoint.close()


def received(connection: socket.socket) -> bytes:
    """Everything until the peer closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


class Site:
    """An HTTP server on loopback whose pages a test can add to."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                body = site.pages.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("content-type", "text/html" if self.path.endswith("/") else "application/json")
                self.send_header("content-length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_request(self, code: Any = "", size: Any = "") -> None:
                pass

            def log_error(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    """A package registry, for example."""
    site = Site()
    yield site
    site.close()


@pytest.fixture
def programs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of installed programs of this test, in this process and in commands."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/agentbench/programs"


@pytest.fixture
def chat_body() -> Callable[..., bytes]:
    """Creates Chat Completions answers."""
    return chat_answer


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def gateway(settings: Settings) -> Iterator[Gateway]:
    """A gateway. Afterwards, none of its threads is left."""
    yield Gateway(settings)
    left = [thread.name for thread in threading.enumerate() if thread.name == "bridge gateway"]
    assert not left


@pytest.fixture
def opened(gateway: Gateway) -> Iterator[Callable[..., Attempt]]:
    """Creates attempts, and closes them."""
    with contextlib.ExitStack() as stack:

        def make(play: Play | None = None, **settings: Any) -> Attempt:
            attempt = Attempt(gateway, play, **settings)
            stack.callback(attempt.close)
            return attempt

        yield make


@pytest.fixture
def attempt(opened: Callable[..., Attempt]) -> Attempt:
    """An attempt whose provider says hello in Chat Completions."""
    return opened()
