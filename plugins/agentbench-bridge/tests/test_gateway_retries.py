"""E13: Retries of clients join the call under way or its stored answer, so that nothing is paid twice."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentbench_bridge.gateway.calls import MOST_STORED, STORED_BYTES, STORED_SEC, Call, Calls
from agentbench_bridge.gateway.spool import Failure
from agentbench_core import Completion, LLMError, Message, NativeExchange

SSE = {"content-type": "text/event-stream"}
RETRY = {"x_stainless_retry_count": "1"}
LONG = 30.0


class Numbered:
    """A provider whose answers contain the number of the call; each waits for ``go`` after its first half."""

    def __init__(self) -> None:
        self.count = 0
        self.half = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, exchange: NativeExchange) -> Completion:
        self.count += 1
        exchange.started(200, SSE)
        exchange.received(f"data: {self.count}\n\n".encode())
        self.half.release()
        assert self.go.wait(LONG)
        exchange.received(b"data: [DONE]\n\n")
        return Completion(message=Message(role="assistant", content="x"))


FIRST = "data: 1\n\ndata: [DONE]\n\n"
SECOND = "data: 2\n\ndata: [DONE]\n\n"


@pytest.fixture
def numbered() -> Numbered:
    return Numbered()


def test_retries_join_the_call_under_way(opened: Any, numbered: Numbered) -> None:
    attempt = opened(numbered)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(attempt.post)
        assert numbered.half.acquire(timeout=LONG)
        retries = [pool.submit(attempt.post, **RETRY) for _ in range(3)]
        numbered.go.set()
        assert {future.result().text for future in (first, *retries)} == {FIRST}
    assert numbered.count == 1


def test_a_retry_gets_the_stored_answer(opened: Any, numbered: Numbered) -> None:
    attempt = opened(numbered)
    numbered.go.set()
    assert attempt.post().text == attempt.post(**RETRY).text == FIRST
    assert attempt.post(x_stainless_retry_count="0").text == SECOND


def test_an_idempotency_key_names_a_call(opened: Any, numbered: Numbered) -> None:
    attempt = opened(numbered)
    numbered.go.set()
    assert attempt.post(idempotency_key="a").text == FIRST
    assert attempt.post(idempotency_key="b").text == SECOND
    assert attempt.post(idempotency_key="a").text == FIRST
    assert attempt.post(idempotency_key="a", **RETRY).text == FIRST
    assert attempt.post(attempt.chat("another"), idempotency_key="a").text.startswith("data: 3")
    assert numbered.count == 3


def test_equal_requests_are_separate_calls(opened: Any, numbered: Numbered) -> None:
    attempt = opened(numbered)
    numbered.go.set()
    assert [attempt.post().text, attempt.post().text] == [FIRST, SECOND]


def test_equal_requests_of_other_paths_and_attempts_are_separate_calls(opened: Any, numbered: Numbered) -> None:
    one, other = opened(numbered), opened(numbered)
    numbered.go.set()
    assert one.post().text == FIRST
    assert other.post(**RETRY).text == SECOND
    body = {"model": "asked", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    assert one.post(body, path="/v1/messages", **RETRY).text.startswith("data: 3")
    assert one.post(body, path="/v1/chat/completions", **RETRY).text.startswith("data: 4")


def test_a_request_repeated_after_a_disconnect_joins(opened: Any, numbered: Numbered) -> None:
    """E13: Some clients repeat a request without any mark after their connection broke."""
    attempt = opened(numbered)
    with attempt.http.stream("POST", "/v1/chat/completions", json=attempt.chat()) as response:
        next(response.iter_raw())
    again = attempt.http.stream("POST", "/v1/chat/completions", json=attempt.chat())
    with again as response:
        parts = response.iter_raw()
        assert next(parts) == b"data: 1\n\n"
        numbered.go.set()
        assert next(parts) == b"data: [DONE]\n\n"
        assert list(parts) == []
    assert attempt.http.post("/v1/chat/completions", json=attempt.chat()).text == SECOND


def test_client_that_disconnects_after_the_last_byte_was_answered(opened: Any, numbered: Numbered) -> None:
    """Some clients disconnect after the last event, without waiting for the end of the response."""
    attempt = opened(numbered)
    with attempt.connect() as connection:
        body = json.dumps(attempt.chat()).encode()
        connection.sendall(attempt.head(f"content-length: {len(body)}") + body)
        numbered.go.set()
        data = b""
        while not data.endswith((b"[DONE]\n\n\r\n", b"0\r\n\r\n")):
            data += connection.recv(65536)
    assert attempt.bridged.drain(LONG)
    assert attempt.http.post("/v1/chat/completions", content=body).text == SECOND


def test_a_failed_call_is_sent_again(opened: Any) -> None:
    calls = []

    def play(exchange: NativeExchange) -> Completion:
        calls.append(exchange)
        if len(calls) == 1:
            raise ValueError("a failure that does not end the attempt")
        exchange.started(200, SSE)
        return Completion(message=Message(role="assistant", content="x"))

    attempt = opened(play)
    assert [attempt.post().status_code, attempt.post(**RETRY).status_code] == [500, 200]


def test_a_retry_after_the_providers_failure_is_refused(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(503, {"content-type": "application/json"})
        exchange.received(b'{"error": {"message": "overloaded"}}')
        raise LLMError("overloaded")

    attempt = opened(play)
    assert [attempt.post().status_code, attempt.post(**RETRY).status_code] == [503, 400]
    assert len(attempt.forwarded) == 1


# --- what is kept ------------------------------------------------------------------------------------------------


class AnswerOf:
    failure: Failure | None = None

    def __init__(self, size: int = 10, status: int = 200) -> None:
        self.size = size
        self.status = status


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def stored(calls: Calls, name: str, **answer: Any) -> Call:
    call = Call(key=name.encode(), repeat_key="", answer=AnswerOf(**answer))  # type: ignore[arg-type] # a double
    call.sent = call.answer.size
    calls.add(call)
    calls.ended(call)
    return call


def has(calls: Calls, name: str) -> bool:
    return calls.find(name.encode(), retried=True, repeat_key="") is not None


def test_answers_are_kept_for_ten_minutes() -> None:
    clock = Clock()
    calls = Calls(clock)
    stored(calls, "a")
    clock.now += STORED_SEC - 1
    assert has(calls, "a")
    clock.now += 1
    assert not has(calls, "a")


def test_the_latest_answers_are_kept() -> None:
    calls = Calls(Clock())
    for number in range(MOST_STORED + 2):
        stored(calls, str(number))
    assert [has(calls, str(number)) for number in (0, 1, 2, MOST_STORED + 1)] == [False, False, True, True]


def test_answers_are_kept_up_to_a_size() -> None:
    calls = Calls(Clock())
    for name in "abc":
        stored(calls, name, size=STORED_BYTES // 2)
    assert [has(calls, name) for name in "abc"] == [False, True, True]


@pytest.mark.parametrize(
    ("status", "kept"), [(200, True), (400, True), (404, True), (408, False), (429, False), (500, False)]
)
def test_answers_that_ask_for_a_retry_are_not_kept(status: int, kept: bool) -> None:
    calls = Calls(Clock())
    stored(calls, "a", status=status)
    assert has(calls, "a") == kept
