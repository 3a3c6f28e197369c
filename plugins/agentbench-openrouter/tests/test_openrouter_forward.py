"""Forwarded requests: what is sent, and what reaches the agent's client of responses, errors and broken streams."""

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from agentbench_core import (
    Completion,
    Deadline,
    DeadlineExceeded,
    ExpectedCalls,
    InputError,
    Interrupted,
    LLMError,
    Message,
    Request,
    Usage,
)
from agentbench_openrouter.forwarding import FIRST_EVENT_BYTES, HELD_BYTES
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import CallDouble, FakeClock, NativeDouble

SECRET = "sk-or-v1-PLANTED0123456789"
OTHER = "gateway-token-PLANTED-9876"
ENVIRON = {"TEST_KEY": SECRET, "OTHER_SECRET": OTHER}
ASK = Request(messages=(Message(role="user", content="hello"),), model="maker/model", max_tokens=50)
BODY = json.dumps({"model": "maker/model", "messages": [], "stream": True, "odd": "\u00e4  "}).encode()
LONG = 1000.0
"""Seconds that pass only on a fake clock."""


def event(content: str = "", **more: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": content}}], **more}).encode()


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "cost": 0.25}
EVENTS = (event("one "), event("two "), event("three"), event(usage=USAGE), b"data: [DONE]\n\n")
JSON = json.dumps({"choices": [{"message": {"content": "whole"}}], "usage": USAGE}).encode()


def problem(code: Any = None, message: str = "it is broken", **more: Any) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()


def streams(posted: Any) -> None:
    posted.head()
    for data in EVENTS:
        posted.piece(data)
    posted.end()


def fails(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Any:
    return lambda posted: posted.send(status, body or problem(status), headers, kind="application/json")


@contextmanager
def provided(upstream: Any, timing: Timing | None = None, **options: Any) -> Iterator[OpenRouter]:
    options = {"key_env": "TEST_KEY", "max_exchanges": 3, **options}
    timing = timing or Timing(uniform=lambda low, _: low, sleep=lambda seconds, deadline: None)
    provider = OpenRouter(OpenRouterOptions(base_url=upstream.url, **options), environ=ENVIRON, timing=timing)
    try:
        yield provider
    finally:
        provider.close()


def forward(provider: OpenRouter, native: NativeDouble | None = None, **more: Any) -> tuple[Completion, NativeDouble]:
    native = native or NativeDouble(BODY)
    return provider.complete(ASK, CallDouble(native=native, **more)), native


def refused(provider: OpenRouter, native: NativeDouble | None = None) -> tuple[LLMError, CallDouble, NativeDouble]:
    native = native or NativeDouble(BODY)
    call = CallDouble(native=native)
    with pytest.raises(LLMError) as caught:
        provider.complete(ASK, call)
    return caught.value, call, native


# --- responses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_a_stream_is_passed_on(upstream: Any, protocol: Any) -> None:
    upstream.play = streams
    read = (lambda status, body: Completion(message=Message(role="assistant"))) if protocol != "chat" else None
    native = NativeDouble(BODY, protocol=protocol, **({"read": read} if read else {}))
    with provided(upstream) as provider:
        result, _ = forward(provider, native)
        again, _ = forward(provider)
    assert native.received_body == b"".join(EVENTS)
    assert [status for status, _ in native.starts] == [200]
    assert native.ended == 1
    assert len(native.threads) == 1
    assert upstream.posted[0].path == f"/v1/{native.path}"
    assert upstream.posted[0].body == BODY
    assert again.message.content == "one two three"
    assert again.usage == Usage(prompt_tokens=5, completion_tokens=7, cost_usd=0.25)
    if protocol == "chat":
        assert result == again


def test_a_whole_response_is_passed_on(upstream: Any) -> None:
    upstream.play = fails(200, JSON)
    with provided(upstream) as provider:
        result, native = forward(provider)
    assert native.received_body == JSON
    assert result.message.content == "whole"


def test_nothing_is_held_back(upstream: Any) -> None:
    """The server sends the next piece only when the last one has been passed on."""
    passed = threading.Semaphore(0)
    arrived = []

    def play(posted: Any) -> None:
        posted.head()
        for data in EVENTS:
            posted.piece(data)
            arrived.append(passed.acquire(timeout=30))
        posted.end()

    upstream.play = play
    native = NativeDouble(BODY, listen=lambda _: passed.release())
    with provided(upstream) as provider:
        forward(provider, native)
    assert arrived == [True] * len(EVENTS)
    assert native.pieces == list(EVENTS)


def test_long_document_is_not_buffered(upstream: Any) -> None:
    text = "x" * (3 * HELD_BYTES)
    upstream.play = fails(200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())
    with provided(upstream) as provider:
        result, native = forward(provider)
    assert result.message.content == text
    assert len(native.pieces) > 1
    assert max(map(len, native.pieces)) < 2 * HELD_BYTES


def test_a_first_event_that_is_long_is_not_held_back(upstream: Any) -> None:
    upstream.play = lambda posted: posted.send(
        200, event("y" * 4 * FIRST_EVENT_BYTES) + b"data: [DONE]\n\n", kind="text/event-stream"
    )
    with provided(upstream) as provider:
        result, _ = forward(provider)
    assert len(result.message.content) == 4 * FIRST_EVENT_BYTES


def test_only_known_response_headers_are_passed_on(upstream: Any) -> None:
    headers = {
        "x-request-id": "r1",
        "anthropic-ratelimit-requests-remaining": "4",
        "x-ratelimit-reset": "9",
        "Set-Cookie": "session=1",
        "anthropic-organization-id": "o",
        "server": "s",
        "retry-after-ms": "\u00e4",
    }
    upstream.play = lambda posted: posted.send(200, b"".join(EVENTS), headers, kind="text/event-stream")
    with provided(upstream) as provider:
        _, native = forward(provider)
    assert native.starts == [
        (
            200,
            {
                "content-type": "text/event-stream",
                "x-request-id": "r1",
                "anthropic-ratelimit-requests-remaining": "4",
                "x-ratelimit-reset": "9",
            },
        )
    ]


def test_a_connection_is_used_again(upstream: Any) -> None:
    """But not one that the server has closed, nor one with an unread response."""
    last = lambda posted: (streams(posted), posted.hang_up())  # noqa: E731
    cut = lambda posted: posted.send(200, event(SECRET) + event("x" * 100_000), kind="text/event-stream")  # noqa: E731
    upstream.plays(streams, last, streams, cut, streams)
    with provided(upstream) as provider:
        for _ in range(3):
            assert forward(provider)[0].message.content == "one two three"
        refused(provider)
        assert forward(provider)[0].message.content == "one two three"
    first, second, third, fourth, fifth = (posted.client for posted in upstream.posted)
    assert first == second != third == fourth != fifth


def test_64_streams_at_once(upstream: Any) -> None:
    """Each gets its own bytes; all are open at the same time."""
    barrier = threading.Barrier(64, timeout=60)

    def play(posted: Any) -> None:
        posted.head()
        posted.piece(event(f"{posted.body.decode()} begins"))
        barrier.wait()
        posted.piece(event(", and ends"))
        posted.piece(b"data: [DONE]\n\n")
        posted.end()

    upstream.play = play
    with provided(upstream) as provider, ThreadPoolExecutor(64) as pool:
        provider._limiter.start(64)
        natives = [NativeDouble(str(number).encode()) for number in range(64)]
        texts = [result.message.content for result, _ in pool.map(lambda native: forward(provider, native), natives)]
    assert texts == [f"{number} begins, and ends" for number in range(64)]


# --- headers of the request --------------------------------------------------------------------------------------


def test_headers_of_the_agent(upstream: Any) -> None:
    """Known and harmless headers are sent; none replaces the provider's own or smuggles in another."""
    upstream.play = streams
    smuggled = {
        "anthropic-beta": "tools-1",
        "anthropic-version": "2023-06-01",
        "accept": "text/event-stream",
        "Authorization": "Bearer stolen",
        "authorization": "Bearer stolen",
        "x-api-key": "stolen",
        "x_api_key": "stolen",
        "api-key": "stolen",
        "host": "evil.example",
        "cookie": "stolen=1",
        "transfer-encoding": "chunked",
        "content-length": "3",
        "content-type": "text/evil",
        "content-encoding": "gzip",
        "accept-encoding": "gzip",
        "connection": "upgrade",
        "expect": "100-continue",
        "user-agent": "evil",
        "x-openrouter-title": "evil",
        "x-mine": "evil",
        "proxy-authorization": "stolen",
        "x-forwarded-for": "1.1.1.1",
        "x-injected": "a\r\nauthorization: Bearer stolen",
        "x-split\r\nauthorization": "Bearer stolen",
        "x-lines": "a\nb",
        "x-nul": "a\0b",
        "x-wide": "\u20ac",
    }
    options = {"dialect": "openrouter", "headers": {"X-Mine": "ours"}}
    with provided(upstream, **options) as provider:
        forward(provider, NativeDouble(BODY, headers=smuggled))
    (posted,) = upstream.posted
    sent = {name: posted.values(name) for name, _ in posted.headers}
    host = upstream.url.split("/")[2]
    assert sent == {
        "host": [host],
        "accept": ["text/event-stream"],
        "accept-encoding": ["identity"],
        "connection": ["keep-alive"],
        "user-agent": ["agentbench-openrouter"],
        "x-openrouter-title": ["AgentBench"],
        "x-openrouter-categories": ["cli-agent"],
        "x-mine": ["ours"],
        "anthropic-beta": ["tools-1"],
        "anthropic-version": ["2023-06-01"],
        "content-type": ["application/json"],
        "content-length": [str(len(BODY))],
        "authorization": [f"Bearer {SECRET}"],
    }
    assert posted.body == BODY


@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_the_key_in_another_header(upstream: Any, protocol: Any) -> None:
    upstream.play = streams
    options = {"key_header": "x-api-key", "secret_header": "X-Gateway-Auth", "secret_header_env": "OTHER_SECRET"}
    with provided(upstream, **options) as provider:
        forward(provider, NativeDouble(BODY, protocol=protocol))
    (posted,) = upstream.posted
    assert posted.values("x-api-key") == [SECRET]
    assert posted.values("x-gateway-auth") == [OTHER]
    assert posted.values("authorization") == []


@pytest.mark.parametrize("path", ["../key", "chat/completions?x=1", "models", "/chat/completions", "messages/batches"])
def test_unknown_paths_are_refused(upstream: Any, path: str) -> None:
    with provided(upstream) as provider:
        error, call, _ = refused(provider, NativeDouble(BODY, path=path))
    assert "cannot forward" in str(error)
    assert upstream.posted == []
    assert [failure.usage for failure in call.failures] == [Usage(cost_usd=0.0)]


def test_options_that_need_another_body_are_refused(upstream: Any) -> None:
    with provided(upstream, dialect="openrouter", data_collection="deny", allow_fallbacks=False) as provider:
        error, call, _ = refused(provider)
    assert "llm.allow_fallbacks, llm.data_collection" in str(error)
    assert error.stops_run
    assert upstream.posted == []
    assert [failure.usage for failure in call.failures] == [Usage(cost_usd=0.0)]


# --- before a run ------------------------------------------------------------------------------------------------


def expected(**more: Any) -> ExpectedCalls:
    fields = {"request": ASK, "workers": 2, "max_cost_usd": 1.0, "deadline": Deadline(60), "forwards": True, **more}
    return ExpectedCalls(**fields)


def priced(prompt: str, completion: str, **more: Any) -> Mapping[str, Any]:
    return {"pricing": {"prompt": prompt, "completion": completion, **more}}


MODEL = {"id": "maker/model", **priced("0.000001", "0.000002")}


def lists(server: Any, endpoints: object) -> None:
    answers = {"/v1/models": {"data": [MODEL]}, "/v1/models/maker/model/endpoints": endpoints}

    def play(request: Any) -> None:
        known = answers.get(request.path)
        data = json.dumps(known).encode()
        request.send_response(404 if known is None else 200)
        request.send_header("content-length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    server.answer = play


@pytest.mark.parametrize(
    ("endpoints", "prices"),
    [
        ([priced("0.000003", "0.000001"), priced("0.000001", "0.000005")], (3.0, 5.0)),
        ([priced("0.0000001", "0.0000001")], (1.0, 2.0)),
        ([priced("0", "0", overrides=[{"prompt": "0.000009"}])], (9.0, 2.0)),
    ],
)
def test_the_most_expensive_provider_counts(server: Any, endpoints: Any, prices: Any) -> None:
    """Forwarded requests cannot exclude it, and ``max_cost_usd`` must hold."""
    lists(server, {"data": {"endpoints": endpoints}})
    with provided(server, dialect="openrouter") as provider:
        facts = provider.preflight(expected())
        assert (facts.usd_per_million_input, facts.usd_per_million_output) == prices
        assert facts.warnings == ()
        facts = provider.preflight(expected(forwards=False))
        assert (facts.usd_per_million_input, facts.usd_per_million_output) == (1.0, 2.0)


@pytest.mark.parametrize(
    "endpoints", [None, [], {"data": {"endpoints": []}}, {"data": {"endpoints": [{}]}}, {"data": 1}]
)
def test_prices_that_are_unknown_are_a_warning(server: Any, endpoints: Any) -> None:
    lists(server, endpoints)
    with provided(server, dialect="openrouter") as provider:
        facts = provider.preflight(expected())
    assert (facts.usd_per_million_input, facts.usd_per_million_output) == (1.0, 2.0)
    assert ["prices of the providers" in warning for warning in facts.warnings] == [True]


def test_without_a_limit_one_price_is_enough(server: Any) -> None:
    lists(server, None)
    with provided(server, dialect="openrouter") as provider:
        assert provider.preflight(expected(max_cost_usd=None)).warnings == ()
    with provided(server) as provider:
        assert provider.preflight(expected()).warnings == ()


def test_options_that_need_another_body_are_refused_before_a_run(server: Any) -> None:
    lists(server, None)
    with provided(server, reasoning_effort="low", provider_only=("x",)) as provider:
        with pytest.raises(InputError, match=r"llm.reasoning_effort cannot be applied"):  # the other one has no effect
            provider.preflight(expected())
        provider.preflight(expected(forwards=False))


# --- errors ------------------------------------------------------------------------------------------------------

_FIRST_EVENTS = {
    "chat": b'data: {"error": {"code": 502, "message": "no provider"}, "choices": []}\n\n',
    "chat, in a choice": b'data: {"choices": [{"error": {"code": 502, "message": "no provider"}, "delta": {}}]}\n\n',
    "chat, after comments": b": PROCESSING\n\n: PROCESSING\n\ndata: " + problem(429) + b"\n\n",
    "messages": b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n',
    "messages, other line ends": b'event: error\r\ndata: {"type": "error", "error": {"type": "api_error"}}\r\n\r\n',
    "responses": b'event: error\ndata: {"type": "error", "code": "server_error", "message": "broken"}\n\n',
    "responses, failed": b'event: response.failed\ndata: {"type": "response.failed", "response": {"error": null}}\n\n',
    "text": b"event: error\ndata: overloaded\n\n",
}

RETRIED: Mapping[str, Any] = {
    "429": fails(429, headers={"retry-after": "0.2"}),
    "500": fails(500),
    "529": fails(529),
    "reset": lambda posted: posted.reset(),
    "ends before the first event": lambda posted: posted.send(200, b": nothing\n\n", kind="text/event-stream"),
    "breaks before the first event": lambda posted: (posted.head(), posted.piece(b"data: {"), posted.hang_up()),
    "error in a success": fails(200, problem(503)),
    "error of a messages server": fails(200, b'{"type": "error", "error": {"type": "overloaded_error"}}'),
    "page": lambda posted: posted.send(200, b"<html>", kind="text/html"),
    "cut JSON": fails(200, JSON[:-5]),
    **{
        f"first event: {name}": lambda posted, data=data: posted.send(200, data, kind="text/event-stream")
        for name, data in _FIRST_EVENTS.items()
    },
}


@pytest.mark.parametrize("name", RETRIED)
def test_temporary_failures_are_retried(upstream: Any, name: str) -> None:
    """Only the last response is passed on."""
    upstream.plays(RETRIED[name], streams)
    call = CallDouble(native=(native := NativeDouble(BODY)))
    with provided(upstream) as provider:
        result = provider.complete(ASK, call)
    assert result.message.content == "one two three"
    assert [status for status, _ in native.starts] == [200]
    assert native.received_body == b"".join(EVENTS)
    assert [told.what for told in call.told if told.what != "waiting"] == ["failed", "again"]
    assert [posted.body for posted in upstream.posted] == [BODY, BODY]
    if name == "429":
        assert call.waited >= 0.2


@pytest.mark.parametrize(("status", "word"), [(429, "rate_limited"), (503, "overloaded"), (500, "transient")])
def test_the_last_failure_is_passed_on(upstream: Any, status: int, word: str) -> None:
    body = problem(status, "come back later")
    upstream.play = fails(status, body, {"retry-after": "0.2"})
    with provided(upstream) as provider:
        error, call, native = refused(provider)
    assert native.starts == [(status, {"content-type": "application/json", "retry-after": "0.2"})]
    assert native.received_body == body
    assert native.ended == 0
    assert len(upstream.posted) == call.exchanges == 3
    assert [failure.error for failure in call.failures] == [word] * 3
    assert "come back later" in str(error)
    assert not error.stops_run


def test_error_in_a_stream_is_passed_on_after_the_last_retry(upstream: Any) -> None:
    data = _FIRST_EVENTS["messages"]
    upstream.play = lambda posted: posted.send(200, data, kind="text/event-stream")
    with provided(upstream) as provider:
        error, call, native = refused(provider)
    assert native.starts == [(200, {"content-type": "text/event-stream"})]
    assert native.received_body == data
    assert len(call.failures) == 3
    assert "busy" in str(error)


REJECTED = {
    "400": (400, problem(400, "no such field")),
    "400 of Messages": (400, b'{"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}'),
    "413": (413, problem(413, "too large")),
    "422": (422, b'{"detail": [{"msg": "Field required"}]}'),
    "too long": (400, problem(400, "This model's maximum context length is 9 tokens", type="invalid_request_error")),
    "too long with the output": (400, problem(400, "maximum context length: lower max_tokens")),
    "refused": (403, problem(403, "flagged", metadata={"reasons": ["violence"]})),
    "text": (400, b"Bad Request"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_request_that_is_rejected_is_a_response(upstream: Any, name: str) -> None:
    status, body = REJECTED[name]
    upstream.play = fails(status, body)
    call = CallDouble(native=(native := NativeDouble(BODY)))
    with provided(upstream) as provider:
        result = provider.complete(ASK, call)
    assert result.finish == ("context_overflow" if status == 413 else "rejected")
    assert result.usage == Usage(cost_usd=0.0)
    assert native.status == status
    assert native.received_body == body
    assert call.told == []
    assert len(upstream.posted) == 1


def test_an_error_without_a_reason_is_tried_once_more(upstream: Any) -> None:
    upstream.play = fails(400, problem(400, "Provider returned error"))
    with provided(upstream) as provider:
        result, native = forward(provider)
    assert (result.finish, native.status, len(upstream.posted)) == ("rejected", 400, 2)
    assert len(native.starts) == 1


def test_a_missing_model_after_a_success_is_rejected(upstream: Any) -> None:
    upstream.plays(streams, fails(404, problem(404, "no endpoints support images")))
    with provided(upstream) as provider:
        forward(provider)
        result, native = forward(provider)
    assert (result.finish, native.status) == ("rejected", 404)


@pytest.mark.parametrize(
    "play", [fails(404, problem(404, "File Not Found")), fails(403, b"<html>blocked</html>"), fails(403)]
)
def test_error_caused_by_one_request_rejects_that_request(upstream: Any, play: Any) -> None:
    """E15: The server and the key have worked, so odd requests can neither prevent a failure nor end the run."""
    upstream.plays(streams, *[play] * 8)
    with provided(upstream) as provider:
        forward(provider)
        for _ in range(4):
            result, native = forward(provider, NativeDouble(BODY, protocol="messages"))
            assert result.finish == "rejected"
            assert native.status in (400, 404)


def test_endpoint_that_never_worked_is_an_llm_error(upstream: Any) -> None:
    """The server may lack the protocol. An agent cannot stop the run with such requests."""
    upstream.play = fails(404, problem(404, "File Not Found"))
    with provided(upstream) as provider:
        for _ in range(5):
            error, call, native = refused(provider, NativeDouble(BODY, protocol="responses"))
            assert f"{upstream.url}/responses: File Not Found" in str(error)
            assert "Does this server support Responses?" in error.remedy
            assert not error.stops_run
            assert native.status == 404
            assert len(call.failures) == 1


def test_counting_tokens_is_optional(upstream: Any) -> None:
    upstream.play = fails(404)
    with provided(upstream) as provider:
        result, native = forward(provider, NativeDouble(BODY, protocol="messages", path="messages/count_tokens"))
    assert (result.finish, native.status) == ("rejected", 404)


@pytest.mark.parametrize(
    "play",
    [
        fails(401, problem(401, f"Incorrect API key provided: {SECRET}")),
        fails(402, problem(402, "Insufficient credits")),
        fails(403, problem(403, "Key limit exceeded", metadata={"limit_usd": 1})),
        fails(200, problem(401, "User not found")),
        lambda posted: posted.send(
            200, b'event: error\ndata: {"error": {"type": "authentication_error"}}\n\n', kind="text/event-stream"
        ),
    ],
)
def test_a_key_that_is_rejected_is_never_shown(upstream: Any, play: Any) -> None:
    upstream.play = play
    with provided(upstream) as provider:
        error, call, native = refused(provider)
        again, _, other = refused(provider)
    assert error.stops_run
    assert again.stops_run
    assert native.starts == other.starts == []
    assert native.pieces == other.pieces == []
    assert len(upstream.posted) == 1
    assert SECRET not in f"{error!r} {error} {call.failures}"


def test_body_of_a_401_is_not_passed_on(upstream: Any) -> None:
    upstream.play = fails(401, problem("context_length_exceeded", f"{SECRET} has no context"))
    with provided(upstream) as provider:
        error, call, native = refused(provider)
    assert native.starts == []
    assert [failure.error for failure in call.failures] == ["auth"]
    assert SECRET not in f"{error!r} {call.failures}"


def test_redirects_are_not_passed_on(upstream: Any) -> None:
    upstream.play = fails(307, b"{}", {"location": "https://elsewhere.example/v1"})
    with provided(upstream) as provider:
        error, _, native = refused(provider)
    assert "redirects to https://elsewhere.example/v1" in str(error)
    assert native.starts == []


# --- responses that break off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hang_up", "reset"])
def test_a_stream_that_breaks_off_is_not_repeated(upstream: Any, how: str) -> None:
    got = threading.Event()

    def play(posted: Any) -> None:
        posted.head()
        posted.piece(EVENTS[0])
        got.wait(30)
        getattr(posted, how)()

    upstream.play = play
    with provided(upstream) as provider:
        error, call, native = refused(provider, NativeDouble(BODY, listen=lambda _: got.set()))
    assert native.received_body == EVENTS[0]
    assert [(failure.error, failure.usage) for failure in call.failures] == [("transient", None)]
    assert len(upstream.posted) == 1
    assert not error.stops_run


def test_complete_stream_may_end_without_a_regular_close(upstream: Any) -> None:
    upstream.play = lambda posted: (posted.head(), posted.piece(b"".join(EVENTS)), posted.hang_up())
    with provided(upstream) as provider:
        result, native = forward(provider)
    assert result.message.content == "one two three"
    assert native.received_body == b"".join(EVENTS)


def test_a_stream_that_ends_too_early_is_a_failure(upstream: Any) -> None:
    upstream.play = lambda posted: posted.send(200, EVENTS[0], kind="text/event-stream")
    with provided(upstream) as provider:
        error, call, _ = refused(provider)
    assert [(failure.error, failure.usage) for failure in call.failures] == [("protocol", None)]
    assert "the stream is incomplete" in str(error)


def test_a_stream_that_reports_a_failure_later(upstream: Any) -> None:
    data = EVENTS[0] + b"data: " + problem(502, "provider died") + b"\n\ndata: [DONE]\n\n"
    upstream.play = lambda posted: posted.send(200, data, kind="text/event-stream")
    with provided(upstream) as provider:
        error, call, native = refused(provider)
    assert native.received_body == data
    assert len(call.failures) == 1
    assert "protocol" in str(error)


def test_an_encoded_response_is_refused(upstream: Any) -> None:
    body = gzip.compress(b"".join(EVENTS))
    upstream.play = lambda posted: posted.send(200, body, {"content-encoding": "gzip"}, kind="text/event-stream")
    with provided(upstream) as provider:
        error, call, native = refused(provider)
    assert "encoding 'gzip'" in str(error)
    assert native.starts == []
    assert len(call.failures) == 1


def test_a_stream_without_an_end_is_cut(upstream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_openrouter.forwarding.MAX_STREAM_BYTES", 100_000)

    def play(posted: Any) -> None:
        posted.head()
        while not upstream.over.is_set():
            posted.piece(event("z" * 1000))

    upstream.play = play
    with provided(upstream) as provider:
        error, _, native = refused(provider)
    assert "longer than" in str(error)
    assert len(native.received_body) <= 100_000


# --- time --------------------------------------------------------------------------------------------------------


def hangs_after(upstream: Any, *pieces: bytes) -> Any:
    def play(posted: Any) -> None:
        posted.head()
        for data in pieces:
            posted.piece(data)
        upstream.over.wait()

    return play


def test_a_gap_that_is_too_long_ends_the_stream(upstream: Any, clock: FakeClock) -> None:
    """Each piece restarts the timer: only the time between two pieces is limited."""
    got = threading.Semaphore(0)

    def play(posted: Any) -> None:
        posted.head()
        for data in EVENTS[:3]:
            posted.piece(data)
            got.acquire(timeout=30)
            clock.advance(0.9 * LONG)
        upstream.over.wait()

    passed = []

    def listen(data: bytes) -> None:
        passed.append(clock())
        got.release()
        if len(passed) == 3:
            threading.Timer(0.3, clock.advance, [1.1 * LONG]).start()

    upstream.play = play
    with provided(upstream, exchange_timeout_sec=LONG, timeout_sec=10 * LONG) as provider:
        error, call, native = refused(provider, NativeDouble(BODY, listen=listen))
    assert native.received_body == b"".join(EVENTS[:3])
    assert [(failure.error, failure.usage) for failure in call.failures] == [("timeout", None)]
    assert len(upstream.posted) == 1
    assert "timed out" in str(error)


def test_the_whole_call_is_limited(upstream: Any, clock: FakeClock) -> None:
    """A stream that drips forever ends at ``timeout_sec``."""

    def play(posted: Any) -> None:
        posted.head()
        while not upstream.over.is_set():
            posted.piece(event("drip"))
            clock.advance(0.3 * LONG)
            upstream.over.wait(0.05)

    upstream.play = play
    timing = Timing(clock=clock, uniform=lambda low, _: low)
    with provided(upstream, timing, exchange_timeout_sec=LONG, timeout_sec=3 * LONG) as provider:
        error, call, native = refused(provider)
    assert len(native.starts) == 1
    assert [failure.error for failure in call.failures] == ["timeout"]
    assert clock() >= 3 * LONG
    assert "timed out" in str(error)


def test_missing_headers_are_retried_once(upstream: Any, clock: FakeClock) -> None:
    def hang(posted: Any) -> None:
        threading.Timer(0.3, clock.advance, [LONG]).start()
        upstream.over.wait()

    upstream.plays(hang, streams)
    call = CallDouble(native=(native := NativeDouble(BODY)))
    with provided(upstream, exchange_timeout_sec=LONG, timeout_sec=10 * LONG) as provider:
        result = provider.complete(ASK, call)
    assert result.message.content == "one two three"
    assert [failure.error for failure in call.failures] == ["timeout"]
    assert len(native.starts) == 1


def test_the_deadline_of_an_attempt_ends_a_stream(upstream: Any) -> None:
    clock = FakeClock()
    upstream.play = hangs_after(upstream, EVENTS[0])
    native = NativeDouble(BODY, listen=lambda _: clock.advance(LONG))
    call = CallDouble(native=native, deadline=clock.deadline(LONG))
    with provided(upstream) as provider, pytest.raises(DeadlineExceeded):
        provider.complete(ASK, call)
    assert native.received_body == EVENTS[0]
    assert [failure.usage for failure in call.failures] == [None]


def test_ending_the_deadline_ends_a_stream(upstream: Any) -> None:
    call = CallDouble()
    call.native = NativeDouble(BODY, listen=lambda _: call.deadline.end(Interrupted("stopped")))
    upstream.play = hangs_after(upstream, EVENTS[0])
    with provided(upstream) as provider, pytest.raises(Interrupted, match="stopped"):
        provider.complete(ASK, call)


def test_closing_ends_a_stream(upstream: Any) -> None:
    upstream.play = hangs_after(upstream, EVENTS[0])
    got = threading.Event()
    with provided(upstream) as provider, ThreadPoolExecutor(1) as pool:
        future = pool.submit(refused, provider, NativeDouble(BODY, listen=lambda _: got.set()))
        assert got.wait(30)
        provider.close()
        error, _, _ = future.result(30)
    assert "closed" in str(error)


def test_a_client_that_fails_ends_the_exchange(upstream: Any) -> None:
    """The gateway's exceptions do not count as failures of the server, and the connection is not reused."""
    upstream.plays(hangs_after(upstream, EVENTS[0]), streams)

    def listen(_: bytes) -> None:
        raise ValueError("the gateway is broken")

    with provided(upstream) as provider:
        with pytest.raises(ValueError, match="the gateway is broken"):
            forward(provider, NativeDouble(BODY, listen=listen))
        assert forward(provider)[0].message.content == "one two three"
