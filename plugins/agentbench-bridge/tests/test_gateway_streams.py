"""E09, E13: streams: bytes arrive as sent, slow and absent clients delay none, memory is flat, errors are visible."""

import json
import queue
import select
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agentbench_bridge.gateway import Settings
from agentbench_core import BudgetExceeded, Completion, LLMError, Message, NativeExchange

SSE = {"content-type": "text/event-stream; charset=utf-8"}
STREAM = {"model": "asked", "messages": [{"role": "user", "content": "hi"}], "stream": True}
LONG = 30.0
END: object = object()


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode() + b"\n\n"


class Fed:
    """A provider that passes on what a test feeds; an exception is raised, and ``END`` completes the answer."""

    def __init__(self) -> None:
        self.fed: queue.Queue[Any] = queue.Queue()
        self.ended = threading.Event()

    def __call__(self, exchange: NativeExchange) -> Completion:
        try:
            exchange.started(200, SSE)
            while (part := self.fed.get(timeout=LONG)) is not END:
                if isinstance(part, Exception):
                    raise part
                exchange.received(part)
            return Completion(message=Message(role="assistant", content="x"))
        finally:
            self.ended.set()


@pytest.fixture
def fed() -> Fed:
    return Fed()


def streamed(attempt: Any, path: str = "/v1/chat/completions") -> Any:
    return attempt.http.stream("POST", path, json=STREAM)


def test_each_part_arrives_before_the_next_is_sent(opened: Any, fed: Fed) -> None:
    parts = [b"d", b"ata: {}", b"\n\n", event("a"), b": comment\r\n", b"\x00\xff", b"data: [DONE]\n\n"]
    with streamed(opened(fed)) as response:
        assert response.headers["content-type"] == SSE["content-type"]
        arriving: Iterator[bytes] = response.iter_raw()
        for part in parts:
            fed.fed.put(part)
            assert next(arriving) == part
        fed.fed.put(END)
        assert list(arriving) == []


def test_a_long_stream_arrives_complete_while_memory_stays_flat(opened: Any) -> None:
    part = event("0123456789" * 100) * 8
    count = 4000

    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, SSE)
        tracemalloc.start()
        for number in range(count):
            exchange._answer.add(part)  # type: ignore[attr-defined] # the parsed copy grows with the content
            if number == count // 10:
                tracemalloc.reset_peak()
                measured.append(tracemalloc.get_traced_memory()[0])
        measured.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return Completion(message=Message(role="assistant", content="x"))

    measured: list[int] = []
    with streamed(opened(play)) as response:
        size = sum(len(data) for data in response.iter_raw(1 << 20))
    assert size == len(part) * count > 30 * 2**20
    assert measured[1] - measured[0] < 6 * 2**20


def test_a_client_that_reads_nothing_delays_neither_the_provider_nor_others(opened: Any) -> None:
    done = threading.Event()

    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, SSE)
        for _ in range(500):
            exchange.received(event("x" * 50_000))
        done.set()
        return Completion(message=Message(role="assistant", content="x"))

    attempt = opened(play)
    with attempt.connect() as connection:
        body = json.dumps(STREAM).encode()
        connection.sendall(attempt.head(f"content-length: {len(body)}") + body)
        assert done.wait(LONG), "25 MB have been received, which nobody has read"
        assert attempt.http.get("/v1/models").status_code == 200


@pytest.mark.parametrize("settings", [Settings(stall_sec=0.1)])
def test_a_client_that_reads_nothing_is_disconnected(opened: Any, settings: Settings) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, SSE)
        for _ in range(500):
            exchange.received(event("x" * 50_000))
        return Completion(message=Message(role="assistant", content="x"))

    attempt = opened(play)
    with attempt.connect() as connection:
        body = json.dumps(STREAM).encode()
        connection.sendall(attempt.head(f"content-length: {len(body)}") + body)
        wait_closed(connection)


def wait_closed(connection: socket.socket) -> None:
    """Wait for the gateway to close a connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLERR)
    assert poll.poll(LONG * 1000)


# --- clients that leave ------------------------------------------------------------------------------------------


def test_a_client_that_leaves_does_not_cancel_the_call(opened: Any, fed: Fed) -> None:
    attempt = opened(fed)
    with streamed(attempt) as response:
        fed.fed.put(event("a"))
        next(response.iter_raw())
    assert not fed.ended.is_set()
    fed.fed.put(event("b", "stop"))
    fed.fed.put(END)
    assert fed.ended.wait(LONG)
    attempt.close()
    assert attempt.bridged.drain(0)
    assert attempt.events.warnings == []


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("/v1/chat/completions", b"data: {"),
        ("/v1/messages", b"event: error\n"),
        ("/v1/responses", b"event: response.failed\n"),
    ],
)
@pytest.mark.parametrize("error", [LLMError("the provider hung up"), BudgetExceeded("no money left"), ValueError("x")])
def test_a_broken_stream_ends_with_an_error_event_and_without_a_regular_end(
    opened: Any, fed: Fed, path: str, mark: bytes, error: Exception
) -> None:
    attempt = opened(fed)
    body = json.dumps(BODIES[path]).encode()
    with attempt.connect() as connection:
        connection.sendall(attempt.head(f"content-length: {len(body)}", path=path) + body)
        fed.fed.put(b"data: {}\n")
        fed.fed.put(error)
        data = b""
        while part := connection.recv(65536):
            data += part
    assert b"data: {}\n\r\n" in data
    assert mark in data.partition(b"data: {}\n\r\n")[2]
    assert not data.endswith(b"0\r\n\r\n")


BODIES = {
    "/v1/chat/completions": STREAM,
    "/v1/messages": {**STREAM, "max_tokens": 10},
    "/v1/responses": {"model": "asked", "input": "hi", "stream": True},
}


def test_a_line_that_is_cut_off_stays_cut_off(opened: Any, fed: Fed) -> None:
    with streamed(opened(fed)) as response:
        fed.fed.put(b"data: {}\n\ndata: {")
        fed.fed.put(LLMError("the provider hung up"))
        received = b""
        with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012 - the data before the error counts
            for data in response.iter_raw():
                received += data
    assert received == b"data: {}\n\ndata: {"


def test_an_answer_without_a_stream_that_breaks_off_is_incomplete(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, {"content-type": "application/json"})
        exchange.received(b'{"id": "c1",\n')
        raise LLMError("the provider hung up")

    with pytest.raises(httpx.RemoteProtocolError):
        opened(play).post()
