"""E07, E08, E12: What the gateway answers: routes, secrets, refusals and errors."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentbench_core import BudgetExceeded, Completion, DeadlineExceeded, InputError, LLMError, Message, NativeExchange

HOSTED = {"model": "asked", "messages": [{"role": "user", "content": "hi"}], "plugins": [{"id": "web"}]}


def error_of(response: Any) -> dict[str, Any]:
    error = response.json()["error"]
    assert isinstance(error, dict)
    return error


# --- routes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_a_request_is_forwarded_with_the_mapped_model(attempt: Any, path: str) -> None:
    response = attempt.post(path=path)
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "hello"
    ((request, exchange),) = attempt.forwarded
    assert (exchange.protocol, exchange.path) == ("chat", "chat/completions")
    assert json.loads(exchange.body)["model"] == request.model == "given"
    assert attempt.events.warnings == []


def test_the_bytes_and_the_listed_headers_are_passed_on(opened: Any) -> None:
    body = b' {"id": "c1",\r\n "choices": [], "odd": "\xc3\xa9"}\n'

    def play(exchange: NativeExchange) -> Completion:
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": "r1",
            "Set-Cookie": "a=b",
            "openai-organization": "o",
        }
        exchange.started(200, headers)
        exchange.received(body[:7])
        exchange.received(body[7:])
        return completion()

    response = opened(play).post()
    assert response.content == body
    assert response.headers["x-request-id"] == "r1"
    assert response.headers["server"] == "agentbench"
    assert not {"set-cookie", "openai-organization"} & set(response.headers)


def test_headers_cannot_be_injected(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(
            200, {"content-type": "text/plain\r\nset-cookie: a=b", "x-request-id": "1\r\n\r\nHTTP/1.1 200 OK"}
        )
        return completion()

    response = opened(play).post()
    assert response.headers["content-type"] == "application/octet-stream"
    assert not {"set-cookie", "x-request-id"} & set(response.headers)


def completion() -> Completion:
    return Completion(message=Message(role="assistant", content="hello"))


def test_models_are_listed(attempt: Any) -> None:
    for path in ("/v1/models", "/models", "/v1/models?client_version=1"):
        assert [model["id"] for model in attempt.http.get(path).json()["data"]] == ["asked", "vendor/other"]
    assert attempt.http.get("/v1/models/asked").json()["id"] == "asked"
    assert attempt.http.get("/v1/models/vendor%2Fother").json()["id"] == "vendor/other"
    assert attempt.http.get("/v1/models/unknown").status_code == 404
    anthropic = attempt.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
    assert [model["type"] for model in anthropic["data"]] == ["model", "model"]


def test_health_needs_no_secret(attempt: Any) -> None:
    del attempt.http.headers["authorization"]
    assert attempt.http.head("/").status_code == 200
    assert attempt.http.get("/").content == b""
    assert attempt.events.warnings == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/embeddings"), ("GET", "/v1/chat/completions"), ("DELETE", "/v1/responses/r1"),
        ("POST", "/v1/files"), ("POST", "/v1/messages/batches"), ("POST", "/v1/v1/messages"), ("POST", "//v1/messages"),
        ("GET", "/metrics"), ("POST", "/v1/chat/completions/"), ("POST", "/v1/%63hat/completions"),
        ("OPTIONS", "/v1/messages"), ("GET", "/v1/models/../responses"),
    ],
)  # fmt: skip
def test_unknown_routes_are_refused_and_recorded(attempt: Any, method: str, path: str) -> None:
    line = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {attempt.secret}\r\nconnection: close\r\n\r\n"
    head, _, body = attempt.raw(line.encode()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["type"] == (
        "not_found_error" if path == "/v1/messages" else "invalid_request_error"
    )
    assert list(attempt.labels) == ["request_refused"]
    assert len(attempt.events.warnings) == 1
    assert attempt.forwarded == []


# --- secrets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "api-key", "x-goog-api-key"])
def test_the_secret_is_accepted_in_the_header_of_each_sdk(attempt: Any, header: str) -> None:
    del attempt.http.headers["authorization"]
    scheme = "bearer " if header == "authorization" else ""
    assert attempt.post(**{header: scheme + attempt.secret}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/models", "/v1/other"])
def test_wrong_secret_is_refused_and_recorded(attempt: Any, path: str) -> None:
    for value in ("Bearer wrong", "Basic " + attempt.secret, "", "Bearer", "Bearer é"):
        response = attempt.http.post(path, headers={"authorization": value.encode()}, content=b"{}")
        assert response.status_code == 401
        assert error_of(response)["type"] == "authentication_error"
        assert attempt.secret not in response.text
    assert list(attempt.labels) == ["gateway_refused"]
    assert len(attempt.events.warnings) == 5
    assert attempt.forwarded == []


def test_the_secret_of_another_attempt_is_refused(opened: Any) -> None:
    one, other = opened(), opened()
    assert one.post(authorization=f"Bearer {other.secret}").status_code == 401
    assert other.post().status_code == 200
    assert (list(one.labels), list(other.labels)) == (["gateway_refused"], [])


def test_many_refusals_are_counted(attempt: Any) -> None:
    for _ in range(30):
        attempt.post(authorization="Bearer wrong")
    attempt.close()
    assert len(attempt.events.warnings) == 21
    assert attempt.events.warnings[-1] == "gateway_refused: 10 more warnings of this kind"


# --- policy ------------------------------------------------------------------------------------------------------


def test_a_hosted_tool_is_refused_with_a_label(attempt: Any) -> None:
    response = attempt.post(HOSTED)
    assert response.status_code == 400
    assert "plugins" in error_of(response)["message"]
    assert list(attempt.labels) == ["provider_tool_refused"]
    assert len(attempt.events.warnings) == 1
    assert attempt.forwarded == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"model": "unknown", "messages": [{"role": "user", "content": "x"}]}',
        b"[" * 100_000,
    ],
)
def test_a_bad_request_is_refused_with_a_label(attempt: Any, body: bytes) -> None:
    response = attempt.post(body)
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"
    assert list(attempt.labels) == ["request_refused"]


# --- errors ------------------------------------------------------------------------------------------------------


def raises(error: BaseException) -> Callable[[NativeExchange], Completion]:
    def play(exchange: NativeExchange) -> Completion:
        raise error

    return play


@pytest.mark.parametrize(
    "error", [BudgetExceeded("all 10 tokens are used up"), DeadlineExceeded("the deadline has passed")]
)
def test_after_the_end_of_the_attempt_every_request_gets_400(opened: Any, error: Exception) -> None:
    attempt = opened(raises(error))
    for path, body in (("/v1/chat/completions", None), ("/v1/messages", b"{}"), ("/v1/responses", b"{}")):
        response = attempt.post(body, path=path)
        assert response.status_code == 400
        assert error_of(response)["type"] == "invalid_request_error"
        assert str(error) in error_of(response)["message"]
        assert "retry-after" not in response.headers
        assert response.headers["x-should-retry"] == "false"
    assert attempt.bridged.stopped is error
    assert len(attempt.forwarded) == 1
    assert attempt.labels == {}


def test_a_failed_provider_is_502_and_then_400(opened: Any) -> None:
    attempt = opened(raises(LLMError("the key sk-1234 is rejected")))
    first, second = attempt.post(), attempt.post()
    assert (first.status_code, second.status_code) == (502, 400)
    assert "sk-1234" not in first.text + second.text
    assert error_of(first)["type"] == "api_error"


def test_an_error_status_of_the_provider_is_kept(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(429, {"content-type": "application/json", "retry-after": "7"})
        exchange.received(b'{"error": {"message": "slow down"}}')
        raise LLMError("rate limited")

    response = opened(play).post()
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7"
    assert response.content == b'{"error": {"message": "slow down"}}'


@pytest.mark.parametrize("status", [401, 403])
def test_an_authentication_error_of_the_provider_is_replaced(opened: Any, status: int) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(status, {"content-type": "application/json"})
        exchange.received(b'{"error": {"message": "Incorrect API key provided: sk-real"}}')
        raise LLMError("rejected")

    response = opened(play).post()
    assert response.status_code == 502
    assert "sk-real" not in response.text


def test_an_authentication_error_may_be_a_completion(opened: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(401, {"content-type": "application/json"})
        exchange.received(b'{"error": {"message": "Incorrect API key provided: sk-real"}}')
        return exchange.completed()

    response = opened(play).post()
    assert response.status_code == 502
    assert "sk-real" not in response.text


@pytest.mark.parametrize("status", [100, 101, 204, 301, 304, 600, 999, 0, -1])
def test_unexpected_provider_statuses_become_a_502(opened: Any, status: int) -> None:
    def play(exchange: NativeExchange) -> Completion:
        with pytest.raises(ValueError, match="is not an answer"):
            exchange.started(status, {"location": "http://x"})
        raise LLMError("odd")

    assert opened(play).post().status_code == 502


def test_input_error_becomes_a_400(opened: Any) -> None:
    response = opened(raises(InputError("this attempt's model is 'given'"))).post()
    assert response.status_code == 400
    assert "this attempt's model" in error_of(response)["message"]


def test_unexpected_error_is_recorded_but_not_sent_to_the_client(opened: Any) -> None:
    attempt = opened(raises(ZeroDivisionError("inner detail")))
    response = attempt.post()
    assert response.status_code == 500
    assert "detail" not in response.text
    assert "ZeroDivisionError: inner detail" in attempt.events.warnings[0]
    attempt.play = completion_of
    assert attempt.post().status_code == 200, "the gateway goes on"


def completion_of(exchange: NativeExchange) -> Completion:
    exchange.started(200, {"content-type": "application/json"})
    exchange.received(b"{}")
    return completion()


def test_more_calls_than_the_maximum_wait(opened: Any, settings: Any) -> None:
    go = threading.Event()
    lock = threading.Lock()
    inside: list[int] = []
    most = []

    def play(exchange: NativeExchange) -> Completion:
        with lock:
            inside.append(1)
            most.append(len(inside))
        if len(most) >= settings.calls:
            go.set()
        assert go.wait(30)
        with lock:
            inside.pop()
        return completion_of(exchange)

    attempt = opened(play)
    threads = [threading.Thread(target=attempt.post, args=(attempt.chat(str(number)),)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= settings.calls == 32
    assert len(most) == 40
