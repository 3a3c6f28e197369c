"""E14: Opening and closing: nothing is left, and what is with the provider is not cancelled."""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from agentbench_bridge.gateway import SHARED, BridgedAttempt, Gateway, Settings
from agentbench_bridge.protocols import Limits, ModelMap
from agentbench_core import Completion, InputError, Message, NativeExchange

LONG = 30.0


def names() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("bridge"))


def sockets() -> set[str]:
    """The sockets, pipes and polls of this process."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(link)  # noqa: PTH115 - the target is no path
            if target.startswith(("socket:", "pipe:", "anon_inode:")):
                found.add(target)
    return found


def answer(exchange: NativeExchange) -> Completion:
    exchange.started(200, {"content-type": "application/json"})
    exchange.received(b"{}")
    return Completion(message=Message(role="assistant", content="x"))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for the gateway to notice what a client did."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end


class Held:
    """A provider that answers when it is let go."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.go = threading.Event()
        self.done = threading.Event()

    def __call__(self, exchange: NativeExchange) -> Completion:
        self.inside.set()
        assert self.go.wait(LONG)
        try:
            return answer(exchange)
        finally:
            self.done.set()


def test_the_thread_runs_while_an_attempt_is_open(opened: Any) -> None:
    before = sockets()
    assert names() == []
    one, other = opened(answer), opened(answer)
    assert names() == ["bridge gateway"]
    assert one.post().status_code == other.post().status_code == 200
    one.close()
    assert names() == ["bridge gateway"]
    assert other.post().status_code == 200
    other.close()
    assert names() == []
    wait_until(lambda: sockets() <= before)  # threads of other tests may start a process meanwhile
    again = opened(answer)
    assert again.post().status_code == 200


def test_after_the_end_connections_are_refused(opened: Any) -> None:
    attempt, other = opened(), opened()
    with attempt.connect() as idle:
        idle.sendall(attempt.head(path="/v1/models", method="GET"))
        assert idle.recv(65536)
        attempt.endpoint.close()
        with contextlib.suppress(ConnectionError):
            assert idle.recv(1) == b""
    with pytest.raises(httpx.ConnectError):
        attempt.post()
    attempt.endpoint.close()
    assert other.http.get("/v1/models").status_code == 200
    assert other.post(authorization=f"Bearer {attempt.secret}").status_code == 401


@pytest.mark.long
def test_connections_that_are_made_during_the_end_are_closed(opened: Any) -> None:
    other = opened(answer)
    before = sockets()
    for _ in range(3):
        attempt = opened(answer)

        def connect(address: tuple[str, int] = ("127.0.0.1", attempt.port)) -> list[socket.socket]:
            made = []
            with contextlib.suppress(ConnectionError):
                while True:
                    made.append(socket.create_connection(address, timeout=LONG))
            return made

        with ThreadPoolExecutor() as pool:
            client = pool.submit(connect)
            wait_until(lambda attempt=attempt: bool(attempt.endpoint._server._connections))  # type: ignore[misc]
            attempt.close()
            for connection in client.result():
                with connection, contextlib.suppress(ConnectionError):
                    # Linux forgets a connection whose handshake ends while its listener is shut down.
                    # The client is told when it sends something.
                    connection.sendall(b"G")
                    assert connection.recv(1) == b""
    wait_until(lambda: sockets() <= before)
    assert other.post().status_code == 200


def test_attempts_open_and_close_at_the_same_time(opened: Any) -> None:
    def use(number: int) -> int:
        attempt = opened(answer)
        status: int = attempt.post(attempt.chat(str(number))).status_code
        attempt.close()
        return status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(40))) == {200}
    assert names() == []


def test_unix_socket_listener(opened: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    attempt = opened(answer, listener=listener)
    transport = httpx.HTTPTransport(uds=path)
    with httpx.Client(transport=transport, base_url="http://x", headers={"x-api-key": attempt.secret}) as client:
        assert client.post("/v1/chat/completions", json=attempt.chat()).status_code == 200


def test_unusable_listener_is_refused(gateway: Gateway, opened: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wrong, pytest.raises(ValueError, match="Stream Socket"):
        gateway.open(wrong, opened(answer).bridged)
    opened(answer).close()


# --- calls with the provider -------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [Settings(idle_sec=0.1, body_sec=0.1, stall_sec=0.1)])
def test_client_timeouts_do_not_apply_to_a_slow_provider(opened: Any, settings: Settings) -> None:
    held = Held()
    attempt = opened(held)
    with attempt.connect() as connection, attempt.connect() as other:
        body = json.dumps(attempt.chat()).encode()
        connection.sendall(attempt.head(f"content-length: {len(body)}", "connection: close") + body)
        assert other.recv(1) == b"", "another one has reached its time limit, twice"
        held.go.set()
        data = b""
        while part := connection.recv(65536):
            data += part
    assert data.startswith(b"HTTP/1.1 200 ")


def test_closing_waits_for_the_cost_of_calls(opened: Any) -> None:
    held = Held()
    attempt = opened(held)
    with ThreadPoolExecutor() as pool:
        client = pool.submit(attempt.post)
        assert held.inside.wait(LONG)
        closing = pool.submit(attempt.endpoint.close)
        with pytest.raises(httpx.HTTPError):
            client.result()
        held.go.set()
        closing.result()
        assert held.done.is_set()
        assert attempt.bridged.drain(0)


@pytest.mark.parametrize("settings", [Settings(grace_sec=0.0)])
def test_a_call_outlives_the_gateway(opened: Any, settings: Settings) -> None:
    held = Held()
    attempt = opened(held)
    with ThreadPoolExecutor() as pool:
        client = pool.submit(attempt.post)
        assert held.inside.wait(LONG)
        attempt.endpoint.close()
        assert names() == ["bridge call"]
        with pytest.raises(httpx.HTTPError):
            client.result()
    held.go.set()
    assert attempt.bridged.drain(LONG)
    assert held.done.is_set()


@pytest.mark.parametrize("settings", [Settings(calls=1)])
def test_a_request_whose_client_left_before_its_turn_is_not_sent(opened: Any, settings: Settings) -> None:
    held = Held()
    attempt = opened(held)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(attempt.post)
        assert held.inside.wait(LONG)
        with attempt.connect() as connection:
            body = json.dumps(attempt.chat("another")).encode()
            connection.sendall(attempt.head(f"content-length: {len(body)}") + body)
            calls = attempt.endpoint._server._routes._calls._calls
            wait_until(lambda: len(calls) == 2)
        wait_until(lambda: not list(calls)[1].clients)
        held.go.set()
        assert first.result().status_code == 200
    assert attempt.post(attempt.chat("the third")).status_code == 200
    assert len(attempt.forwarded) == 2


@pytest.mark.parametrize("settings", [Settings(calls=1, waiting=2)])
def test_too_many_waiting_requests_are_refused(opened: Any, settings: Settings) -> None:
    held = Held()
    attempt = opened(held)
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(attempt.post, attempt.chat(str(number))) for number in range(2)]
        waiting = attempt.endpoint._server._routes._tasks
        wait_until(lambda: len(waiting) == 2)
        refused = attempt.post(attempt.chat("2"))
        assert refused.status_code == 429
        assert "2 requests are already waiting" in refused.text
        held.go.set()
        assert [future.result().status_code for future in futures] == [200, 200]


def test_a_context_without_a_program_is_refused(opened: Any) -> None:
    context = attrs.evolve(opened().bridged.notes._context, program=None)
    with pytest.raises(InputError, match="has no program"):
        BridgedAttempt(context=context, models=ModelMap(names={}), limits=Limits())


def test_one_gateway_is_shared() -> None:
    assert isinstance(SHARED, Gateway)
    assert names() == []
