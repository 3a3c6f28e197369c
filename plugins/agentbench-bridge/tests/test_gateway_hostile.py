"""E08, E09: hostile clients: malformed HTTP, too much of everything, too slowly. Nothing is forwarded or printed."""

import contextlib
import gzip
import json
import resource
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agentbench_bridge.gateway import Settings
from agentbench_core import BudgetExceeded, Completion, Message, NativeExchange

LONG = 30.0
BODY = json.dumps({"model": "asked", "messages": [{"role": "user", "content": "hi"}]}).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SMUGGLED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(autouse=True)
def _silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing is printed, whatever clients send."""
    yield
    assert capfd.readouterr() == ("", "")


def statuses(data: bytes) -> list[int]:
    """The statuses of the answers in these bytes."""
    return [int(part.split(b" ", 2)[1]) for part in data.split(b"HTTP/1.")[1:]]


# --- malformed HTTP ----------------------------------------------------------------------------------------------

MALFORMED = {
    "both lengths": (["content-length: 5", "transfer-encoding: chunked"], CHUNKED),
    "both lengths, other order": (["transfer-encoding: chunked", "content-length: 5"], CHUNKED),
    "two lengths": (["content-length: 5", "content-length: 10"], BODY),
    "a list of lengths": ([f"content-length: {len(BODY)}, {len(BODY)}"], BODY),
    "a length with a sign": (["content-length: +5"], BODY),
    "a negative length": (["content-length: -5"], BODY),
    "a length with an underscore": (["content-length: 1_0"], BODY),
    "a hexadecimal length": (["content-length: 0x10"], BODY),
    "a folded header": (["x-a: b", " c: d", f"content-length: {len(BODY)}"], BODY),
    "a folded length": (["content-length:", f" {len(BODY)}"], BODY),
    "a space before the colon": ([f"content-length : {len(BODY)}"], BODY),
    "a header without a name": ([": b", f"content-length: {len(BODY)}"], BODY),
    "a header without a colon": (["abc", f"content-length: {len(BODY)}"], BODY),
    "NUL in a header": (["x-a: a\0b", f"content-length: {len(BODY)}"], BODY),
    "CR in a header": (["x-a: a\rb", f"content-length: {len(BODY)}"], BODY),
    "another encoding": (["transfer-encoding: gzip"], BODY),
    "chunked is not last": (["transfer-encoding: chunked, identity"], CHUNKED),
    "chunked twice": (["transfer-encoding: chunked", "transfer-encoding: chunked"], CHUNKED),
    "a misspelled encoding": (["transfer-encoding: xchunked"], CHUNKED),
    "a long header": ["x-a: " + "b" * 10_000],
    "many headers": [f"x-{number}: b" for number in range(1000)],
    "a chunk without a size": (["transfer-encoding: chunked"], b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with a sign": (["transfer-encoding: chunked"], b"+3\r\nabc\r\n0\r\n\r\n"),
    "a negative chunk size": (["transfer-encoding: chunked"], b"-1\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with a prefix": (["transfer-encoding: chunked"], b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a huge chunk size": (["transfer-encoding: chunked"], b"f" * 17 + b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk longer than its size": (["transfer-encoding: chunked"], b"1\r\nabc\r\n0\r\n\r\n"),
    "a chunk that ends with LF": (["transfer-encoding: chunked"], b"3\r\nabc\n0\r\n\r\n"),
    "a chunk size that ends with LF": (["transfer-encoding: chunked"], b"3\nabc\r\n0\r\n\r\n"),
    "a chunk extension with LF": (["transfer-encoding: chunked"], b"3;a=\nb\r\nabc\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_requests_are_refused_and_end_the_connection(attempt: Any, case: str) -> None:
    entry = MALFORMED[case]
    lines, body = entry if isinstance(entry, tuple) else (entry, b"")
    data = attempt.raw(attempt.head(*lines) + body + attempt.head(f"content-length: {len(BODY)}") + BODY)
    assert statuses(data) == [400]
    assert attempt.forwarded == []
    assert len(attempt.events.warnings) == 1
    assert attempt.secret.encode() not in data


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/3.7\r\n\r\n", b"\0" * 1000, b"GET / / HTTP/1.1\r\n\r\n", b"G" * 100_000, b"GET /" + b"a" * 100_000,
        b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http://x/v1/models HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)  # fmt: skip
def test_data_that_is_not_http_is_refused(attempt: Any, data: bytes) -> None:
    with attempt.connect() as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    assert all(status in (400, 401, 404) for status in statuses(received))
    assert attempt.forwarded == []


def test_a_request_inside_a_body_is_not_a_request(attempt: Any) -> None:
    inner = attempt.head(f"content-length: {len(BODY)}") + BODY
    data = attempt.raw(attempt.head(f"content-length: {len(inner)}", "connection: close") + inner)
    assert statuses(data) == [400]
    assert attempt.forwarded == []


def test_pipelined_requests_are_answered_in_order(attempt: Any) -> None:
    one = attempt.head(f"content-length: {len(BODY)}") + BODY
    last = attempt.head("transfer-encoding: chunked", "connection: close") + CHUNKED
    assert statuses(attempt.raw(one + attempt.head(path="/v1/nothing").replace(b"POST", b"GET"))) == [200, 404]
    assert statuses(attempt.raw(one + one + last)) == [200, 200, 200]
    assert len(attempt.forwarded) == 4


def test_a_refused_request_ends_its_pipeline(attempt: Any) -> None:
    one = attempt.head(f"content-length: {len(BODY)}") + BODY
    wrong = one.replace(attempt.secret.encode(), b"x" * len(attempt.secret))
    assert statuses(attempt.raw(wrong + one)) == [401]
    assert attempt.forwarded == []


def test_text_of_a_client_or_the_harness_cannot_add_fields_or_events(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, {"content-type": "text/event-stream"})
        raise BudgetExceeded('over"}\r\n\r\ndata: {"evil": 1}\n\nevent: x')

    attempt = opened(play)
    refused = attempt.post(attempt.chat() | {"model": 'a"}\r\n\r\ndata: {"evil": 1}'})
    assert set(refused.json()) <= {"error", "status"}
    body = json.dumps(attempt.chat(stream=True)).encode()
    streamed = attempt.raw(attempt.head(f"content-length: {len(body)}") + body)
    assert b'\ndata: {"evil' not in streamed
    assert set(attempt.post().json()) <= {"error", "status"}


# --- other protocols ---------------------------------------------------------------------------------------------


def test_websocket_is_refused(attempt: Any) -> None:
    lines = ["upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13", "sec-websocket-key: AAAA"]
    data = attempt.raw(attempt.head(*lines, path="/v1/responses", method="GET") + b"\x81\x85" * 100)
    assert statuses(data)[0] == 400
    assert attempt.forwarded == []


def test_another_upgrade_is_ignored(attempt: Any) -> None:
    lines = ["upgrade: h2c", "connection: upgrade, http2-settings, close", "http2-settings: AAMAAABkAAQAAP__"]
    assert statuses(attempt.raw(attempt.head(*lines, f"content-length: {len(BODY)}") + BODY)) == [200]


def test_expect_100_continue_is_answered(attempt: Any) -> None:
    with attempt.connect() as connection:
        connection.sendall(attempt.head("expect: 100-continue", f"content-length: {len(BODY)}", "connection: close"))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        data = b""
        while part := connection.recv(65536):
            data += part
    assert statuses(data) == [200]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip"])
def test_a_compressed_body_is_refused_without_unpacking_it(attempt: Any, encoding: str) -> None:
    bomb = gzip.compress(bytes(30 * 2**20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    response = attempt.post(bomb, content_encoding=encoding)
    assert response.status_code == 415
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000, "KiB"
    assert attempt.forwarded == []


# --- too much ----------------------------------------------------------------------------------------------------


def test_a_huge_length_is_refused_before_the_body(attempt: Any) -> None:
    assert statuses(attempt.raw(attempt.head(f"content-length: {2**30}"))) == [413]
    assert statuses(attempt.raw(attempt.head(f"content-length: {10**30}"))) == [400]
    assert attempt.forwarded == []


@pytest.mark.parametrize("settings", [Settings(longest_body=2**20)])
def test_an_endless_body_is_refused(attempt: Any, settings: Settings) -> None:
    chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
    sent = 0
    received = b""
    with attempt.connect() as connection:
        connection.sendall(attempt.head("transfer-encoding: chunked"))
        with contextlib.suppress(ConnectionError):
            while not select.select([connection], [], [], 0)[0]:
                connection.sendall(chunk)
                sent += len(chunk)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    assert statuses(received) == [413]
    assert sent < 2**30


@pytest.mark.parametrize("settings", [Settings(longest_body=2**20, bodies=2**20)])
def test_the_largest_body_is_accepted(attempt: Any, settings: Settings) -> None:
    text = "x" * (2**20 - len(json.dumps(attempt.chat(""))))
    assert attempt.post(attempt.chat(text)).status_code == 200
    assert attempt.post(attempt.chat(text + "x")).status_code == 413
    assert attempt.post(attempt.chat(text)).status_code == 200


@pytest.mark.parametrize("settings", [Settings(longest_body=2**20, bodies=2**21)])
def test_bodies_wait_for_free_memory(opened: Any, settings: Settings) -> None:
    """E09: Three bodies of 1 MiB never are in memory at the same time, as two fit."""
    lock = threading.Lock()
    inside: list[int] = []
    most: list[int] = []
    two = threading.Event()

    def play(exchange: NativeExchange) -> Completion:
        with lock:
            inside.append(1)
            most.append(len(inside))
            if len(inside) == 2:
                two.set()
        assert two.wait(LONG)
        exchange.started(200, {"content-type": "application/json"})
        with lock:
            inside.pop()
        return Completion(message=Message(role="assistant", content="x"))

    attempt = opened(play)
    text = "x" * (2**20 - 200)
    threads = [threading.Thread(target=attempt.post, args=(attempt.chat(text + str(n)),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 2
    assert len(most) == 4


@pytest.mark.long
def test_ten_thousand_connections_do_not_affect_other_attempts(opened: Any) -> None:
    one, other = opened(), opened()
    with contextlib.ExitStack() as kept:
        for number in range(10_000):
            if number < 256:
                kept.enter_context(one.connect())
                continue
            with contextlib.suppress(ConnectionError), one.connect() as connection:
                assert connection.recv(1) == b""
        assert other.post().status_code == 200
    while not answers(one):
        pass
    assert len(one.events.warnings) == 20
    one.close()
    assert "of this kind" in one.events.warnings[-1]
    assert other.post().status_code == 200


def answers(attempt: Any) -> bool:
    """Whether a new connection is accepted."""
    with contextlib.suppress(ConnectionError):
        return bool(statuses(attempt.raw(attempt.head("connection: close", path="/v1/models", method="GET"))) == [200])
    return False


# --- too slow ----------------------------------------------------------------------------------------------------


def dribble(connection: socket.socket, data: bytes) -> bytes:
    """Send single bytes until the connection is closed; returns what was received."""
    received = b""
    with contextlib.suppress(ConnectionError):
        for index in range(100_000):
            if select.select([connection], [], [], 0.01)[0]:
                part = connection.recv(65536)
                if not part:
                    return received
                received += part
            connection.sendall(data[index : index + 1] or b"x")
    return received


@pytest.mark.parametrize("settings", [Settings(idle_sec=0.3)])
@pytest.mark.parametrize(
    "start", [b"", b"POST /v1/chat/comp", b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-a: "]
)
def test_a_head_that_takes_too_long_ends_the_connection(attempt: Any, settings: Settings, start: bytes) -> None:
    with attempt.connect() as silent, attempt.connect() as slow:
        silent.sendall(start)
        slow.sendall(start)
        assert dribble(slow, b"" if start else b"POST /") == b""
        with contextlib.suppress(ConnectionError):
            assert silent.recv(1) == b""


@pytest.mark.parametrize("settings", [Settings(idle_sec=0.3)])
def test_an_idle_connection_is_closed_after_a_request_too(attempt: Any, settings: Settings) -> None:
    with attempt.connect() as connection:
        connection.sendall(attempt.head(path="/v1/models", method="GET"))
        data = dribble(connection, b"GET /")
    assert statuses(data) == [200]


@pytest.mark.parametrize("settings", [Settings(body_sec=0.3)])
@pytest.mark.parametrize("line", ["content-length: 1000", "transfer-encoding: chunked"])
def test_a_body_that_takes_too_long_is_refused(attempt: Any, settings: Settings, line: str) -> None:
    with attempt.connect() as slow:
        slow.sendall(attempt.head(line))
        data = dribble(slow, b"fff\r\n")
    assert statuses(data) == [408]
    assert attempt.forwarded == []


def test_free_requests_are_limited_too(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """E15: Requests that cost nothing would otherwise fill the host's disk with evidence."""
    monkeypatch.setattr("agentbench_bridge.gateway.attempt.MOST_REQUESTS", 2)
    attempt = opened()
    codes = [attempt.post(attempt.chat(str(number))).status_code for number in range(4)]
    assert codes == [200, 200, 400, 400]
    assert len(attempt.forwarded) == 2
