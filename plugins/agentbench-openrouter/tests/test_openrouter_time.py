"""Servers that are slow, hang, drip or never finish; and calls that are interrupted.

F19: no call exceeds its time limit, and none of these responses is an answer. Where a request must arrive before the
deadline, the server advances a fake clock, since the machine may be slow.
"""

import gzip
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from agentbench_core import (
    Deadline,
    DeadlineExceeded,
    ExpectedCalls,
    Interrupted,
    LLMError,
    Message,
    Request,
    UnavailableError,
    Usage,
)
from agentbench_openrouter.exchange import Line
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing, sleep
from agentbench_testing import CallDouble, FakeClock
from agentbench_testing.chat_server import (
    DEFAULT_MODEL,
    LoopbackServer,
    Reply,
    Responder,
    Seen,
    always,
    answer,
    error,
    in_turn,
)

pytestmark = pytest.mark.usefixtures("no_proxy")
ASK = Request(messages=(Message(role="user", content="hello"),), model=DEFAULT_MODEL, max_tokens=50)
FINE = answer("fine")
HASTY = Timing(uniform=lambda low, _: low)
SLOW = 60.0
"""Seconds: much longer than anything here takes, even on a slow machine."""
LONG = 1000.0
"""Seconds that pass only on a fake clock."""


@contextmanager
def provided(server: LoopbackServer, timing: Timing | None = None, **options: Any) -> Iterator[OpenRouter]:
    provider = OpenRouter(OpenRouterOptions(base_url=server.base_url, **options), environ={}, timing=timing)
    try:
        yield provider
    finally:
        provider.close()


def meanwhile(happens: Callable[[], object], responder: Responder, *, first: int = 1) -> Responder:
    """Call ``happens`` shortly after each request, from number ``first`` on."""

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        if seen.number >= first:
            threading.Timer(0.3, happens).start()
        return responder(request, seen)

    return respond


HANGING = {
    "hangs": Reply(hang=True),
    "hangs within its header": answer("fine", hang=True, sent=30),
    "hangs within its body": answer("fine", hang=True, sent=250),
    "drips its header": answer("fine", drip=0.1, drip_headers=True),
    "drips its body": answer("fine" * 100, drip=0.1),
    "drips chunks": answer("fine" * 100, drip=0.1, chunked=True),
    "sends white space": answer("fine", padding=1000, drip=0.1),
}


@pytest.mark.parametrize("name", HANGING)
@pytest.mark.parametrize("warm", [False, True])
def test_an_exchange_ends_in_time(name: str, warm: bool, clock: FakeClock) -> None:
    """F19: on a new and on a reused connection; socket timeouts never fire while bytes arrive."""
    made = CallDouble()
    replies = (FINE, HANGING[name]) if warm else (HANGING[name],)
    responder = meanwhile(lambda: clock.advance(LONG), in_turn(*replies), first=len(replies))
    options = {"exchange_timeout_sec": LONG, "max_exchanges": 1}
    with LoopbackServer(responder) as server, provided(server, **options) as provider:
        if warm:
            provider.complete(ASK, CallDouble())
        began = time.monotonic()
        with pytest.raises(LLMError, match="timeout: response timed out"):
            provider.complete(ASK, made)
        took = time.monotonic() - began
    assert clock() == LONG
    assert took < SLOW
    assert [failure.error for failure in made.failures] == ["timeout"]
    assert made.failures[0].usage is None


def test_exchanges_and_waits_share_the_time_limit(clock: FakeClock) -> None:
    """F19: exchanges and waits share one time limit, so the second exchange gets what the first one left."""
    timing = Timing(clock=clock, uniform=lambda low, _: low)
    passing = iter([0.6 * LONG, 0.4 * LONG])
    responder = meanwhile(lambda: clock.advance(next(passing)), always(Reply(hang=True)))
    options = {"exchange_timeout_sec": 0.6 * LONG, "timeout_sec": LONG}
    with LoopbackServer(responder) as server, provided(server, timing, **options) as provider:
        with pytest.raises(LLMError, match="timeout"):
            provider.complete(ASK, CallDouble())
        assert len(server.chat_requests) == 2


def test_call_ends_in_real_time() -> None:
    """The number of requests depends on the speed of the machine."""
    with LoopbackServer(always(Reply(hang=True))) as server:
        with provided(server, exchange_timeout_sec=0.4, timeout_sec=1.0) as provider:
            began = time.monotonic()
            with pytest.raises(LLMError, match=r"timeout|timed out"):
                provider.complete(ASK, CallDouble())
            assert 0.4 <= time.monotonic() - began < SLOW
        assert len(server.chat_requests) <= 3


def test_a_hanging_exchange_is_tried_again(clock: FakeClock) -> None:
    """The attempt gets the lost time back."""
    made = CallDouble(deadline=clock.deadline(2 * LONG))
    timing = Timing(clock=clock, uniform=lambda low, _: low)
    passing = iter([LONG])
    responder = meanwhile(lambda: clock.advance(next(passing, 0.0)), in_turn(Reply(hang=True), FINE))
    options = {"exchange_timeout_sec": LONG, "timeout_sec": 2 * LONG}
    with LoopbackServer(responder) as server, provided(server, timing, **options) as provider:
        assert provider.complete(ASK, made).message.content == "fine"
    assert made.waited == LONG


def test_the_deadline_of_an_attempt_ends_an_exchange() -> None:
    """The exchange is reported, since it was sent. Its time is not given back, or the attempt would never end."""
    clock = FakeClock()
    made = CallDouble(deadline=clock.deadline(LONG))
    responder = meanwhile(lambda: clock.advance(LONG), always(Reply(hang=True)))
    with LoopbackServer(responder) as server, provided(server) as provider:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            provider.complete(ASK, made)
        assert time.monotonic() - began < SLOW
        assert len(server.chat_requests) == 1
    assert [each.what for each in made.told] == ["failed"]


def test_a_deadline_that_is_over_sends_nothing() -> None:
    made = CallDouble(deadline=Deadline(0))
    with LoopbackServer(always(FINE)) as server, provided(server) as provider:
        with pytest.raises(DeadlineExceeded):
            provider.complete(ASK, made)
        assert server.requests == []
    assert [failure.usage is not None and failure.usage.cost_usd for failure in made.failures] == [0.0]


@pytest.mark.parametrize("warm", [False, True])
def test_ending_the_deadline_ends_an_exchange(warm: bool) -> None:
    """As with Ctrl-C while the server does not answer."""
    deadline = Deadline(600)
    replies = (FINE, Reply(hang=True)) if warm else (Reply(hang=True),)
    responder = meanwhile(lambda: deadline.end(Interrupted("stopped")), in_turn(*replies), first=len(replies))
    with LoopbackServer(responder) as server, provided(server) as provider:
        if warm:
            provider.complete(ASK, CallDouble())
        began = time.monotonic()
        with pytest.raises(Interrupted, match="stopped"):
            provider.complete(ASK, CallDouble(deadline=deadline))
        assert time.monotonic() - began < SLOW


def test_ending_the_deadline_ends_a_wait() -> None:
    deadline = Deadline(600)

    def fall_asleep(seconds: float, until: Deadline) -> None:
        threading.Timer(0.3, deadline.end, [Interrupted("stopped")]).start()
        sleep(seconds, until)

    responder = always(error(429, headers={"Retry-After": "100"}))
    with LoopbackServer(responder) as server, provided(server, Timing(sleep=fall_asleep)) as provider:
        with pytest.raises(Interrupted, match="stopped"):
            provider.complete(ASK, CallDouble(deadline=deadline))
        assert len(server.chat_requests) == 1


def test_ending_the_deadline_ends_a_wait_for_a_slot() -> None:
    deadline = Deadline(600)
    with LoopbackServer(always(Reply(hang=True))) as server, provided(server) as provider:
        provider._limiter.start(1)
        with ThreadPoolExecutor(2) as pool:
            other = Deadline(600)
            first = pool.submit(provider.complete, ASK, CallDouble(deadline=other))
            wait_until(lambda: len(server.chat_requests) == 1)
            second = pool.submit(provider.complete, ASK, CallDouble(deadline=deadline))
            wait_until(lambda: len(provider._limiter._queue) == 1)
            deadline.end(Interrupted("stopped"))
            with pytest.raises(Interrupted):
                second.result(SLOW)
            other.end(Interrupted("over"))
            with pytest.raises(Interrupted, match="over"):
                first.result(SLOW)
        assert len(server.chat_requests) == 1


def test_closing_ends_running_and_later_calls() -> None:
    with LoopbackServer(always(Reply(hang=True))) as server, provided(server) as provider:
        with ThreadPoolExecutor(1) as pool:
            call = CallDouble()
            under_way = pool.submit(provider.complete, ASK, call)
            wait_until(lambda: len(server.chat_requests) == 1)
            provider.close()
            with pytest.raises(LLMError, match="closed"):
                under_way.result(SLOW)
        later = CallDouble()
        with pytest.raises(LLMError, match="closed"):
            provider.complete(ASK, later)
        assert len(server.chat_requests) == 1
    assert call.exchanges == later.exchanges == 1
    assert "agentbench-openrouter-watch" not in [thread.name for thread in threading.enumerate() if thread.is_alive()]


def test_an_endless_body_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_openrouter.client.MAX_BODY_BYTES", 1 << 20)
    with LoopbackServer(always(answer("fine", padding=2 << 20))) as server, provided(server) as provider:
        with pytest.raises(LLMError, match="longer than 1 MiB"):
            provider.complete(ASK, CallDouble())
        assert len(server.chat_requests) == 1


def test_decompressed_body_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_openrouter.client.MAX_BODY_BYTES", 1 << 20)
    packed = Reply(raw=gzip.compress(b" " * (8 << 20)), headers={"Content-Encoding": "gzip"})
    with (
        LoopbackServer(always(packed)) as server,
        provided(server) as provider,
        pytest.raises(LLMError, match="longer than 1 MiB"),
    ):
        provider.complete(ASK, CallDouble())


def test_a_body_that_cannot_be_unpacked() -> None:
    odd = Reply(raw=b"no gzip", headers={"Content-Encoding": "gzip"})
    made = CallDouble()
    with LoopbackServer(in_turn(odd, FINE)) as server, provided(server, timing=HASTY) as provider:
        assert provider.complete(ASK, made).message.content == "fine"
    assert [failure.error for failure in made.failures] == ["protocol"]


def test_refused_connection_costs_nothing() -> None:
    """Nothing was sent, so the cost is 0."""
    made = CallDouble()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        provider = OpenRouter(OpenRouterOptions(base_url=url, timeout_sec=0.3), environ={}, timing=HASTY)
        with pytest.raises(LLMError, match=r"cannot reach|connection timed out") as caught:
            provider.complete(ASK, made)
        provider.close()
    assert "network" in caught.value.remedy
    assert {failure.usage for failure in made.failures} == {Usage(cost_usd=0.0)}


@pytest.mark.parametrize("early", [False, True])
def test_a_server_that_never_accepts(early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pending connection attempt cannot be cancelled: it is abandoned, and nothing is sent if it succeeds later."""
    connect, deadline = socket.create_connection, Deadline(600)

    def begin(*args: Any, **more: Any) -> socket.socket:
        threading.Timer(0.3, deadline.end, [Interrupted("stopped")]).start()
        return connect(*args, **more)

    with socket.socket() as listener:
        listener.settimeout(SLOW)
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        with socket.create_connection(address):  # fills the queue
            url = f"http://127.0.0.1:{address[1]}/v1"
            options = OpenRouterOptions(base_url=url, max_exchanges=1, timeout_sec=4 * SLOW if early else 1.0)
            provider = OpenRouter(options, environ={})
            made = CallDouble(deadline=deadline)
            if early:
                monkeypatch.setattr(socket, "create_connection", begin)
            began = time.monotonic()
            with pytest.raises(Interrupted if early else LLMError):
                provider.complete(ASK, made)
            took = time.monotonic() - began
            provider.close()
            assert [failure.usage is not None for failure in made.failures] == [True]
            if early:
                assert took < SLOW
                came, _ = listener.accept()
                late, _ = listener.accept()
                with came, late:
                    late.settimeout(SLOW)
                    assert late.recv(1000) == b""


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("how", ["in time", "deadline", "close"])
def test_reconnecting_ends_in_time(how: str, noticed: bool, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    """F19: also if the kept one is closed and the name lookup hangs. ``noticed``: detected before httpx does."""
    looked_up, over = threading.Event(), threading.Event()
    real = socket.getaddrinfo
    deadline = Deadline(600)

    def look_up(*args: Any, **more: Any) -> Any:
        if looked_up.is_set():
            threading.Timer(0.3, end[how]).start()
            assert over.wait(4 * SLOW)
        looked_up.set()
        return real(*args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    if not noticed:
        monkeypatch.setattr(Line, "silent", property(lambda _: True))
    with LoopbackServer(always(answer("fine", last=True))) as server:
        url = server.base_url.replace("127.0.0.1", "localhost")
        provider = OpenRouter(OpenRouterOptions(base_url=url, max_exchanges=1), environ={})
        end: dict[str, Callable[[], None]] = {
            "in time": lambda: clock.advance(LONG),
            "deadline": lambda: deadline.end(Interrupted("stopped")),
            "close": provider.close,
        }
        provider.complete(ASK, CallDouble())
        lane = provider._client._idle[0]
        wait_until(lambda: _ended(lane.line))
        call = CallDouble(deadline=deadline)
        began = time.monotonic()
        with pytest.raises(Interrupted if how == "deadline" else LLMError):
            provider.complete(ASK, call)
        assert time.monotonic() - began < SLOW
        over.set()
        provider.close()
        assert len(server.chat_requests) == 1
    assert [failure.usage is not None for failure in call.failures] == ([] if how == "close" else [True])


def _ended(line: Line) -> bool:
    """Whether the peer or httpx has closed it."""
    assert line._socket is not None
    return line._socket.fileno() < 0 or bool(select.select([line._socket], [], [], 0)[0])


def test_reconnecting_before_sending_is_not_reported() -> None:
    """Nothing was sent on the old connection, so nothing is reported."""
    made = CallDouble()
    with LoopbackServer(always(answer("fine", last=True))) as server, provided(server) as provider:
        for _ in range(3):
            provider.complete(ASK, made)
            lane = provider._client._idle[0]
            wait_until(lambda: _ended(lane.line))  # noqa: B023 - called at once
        assert [seen.connection for seen in server.chat_requests] == [1, 2, 3]
    assert made.told == []


def test_sockets_of_closed_connections_are_released() -> None:
    together = threading.Barrier(4)

    def respond(_: object, seen: Seen) -> Reply:
        if seen.number <= together.parties:
            together.wait(SLOW)
        return answer("fine", last=True)

    with LoopbackServer(respond) as server, provided(server) as provider:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: provider.complete(ASK, CallDouble()), range(4)))
        sockets = [lane.line._socket for lane in provider._client._idle]
        assert len(sockets) == 4
        for lane in provider._client._idle:
            wait_until(lambda: _ended(lane.line))  # noqa: B023 - called at once
        provider.complete(ASK, CallDouble())
        assert [held.fileno() for held in sockets if held is not None] == [-1] * 4


def test_timeouts_are_retried_once(clock: FakeClock) -> None:
    """F21: not more often, since the server may finish each request, and bill it."""
    made = CallDouble()
    responder = meanwhile(lambda: clock.advance(LONG), always(Reply(hang=True)))
    with LoopbackServer(responder) as server, provided(server, timing=HASTY) as provider:
        with pytest.raises(LLMError, match="timeout"):
            provider.complete(ASK, made)
        assert len(server.chat_requests) == 2
    assert [failure.usage for failure in made.failures] == [None, None]


# --- proxies and certificates --------------------------------------------------------------------------------------

ODD = {
    "ALL_PROXY": "socks5://me:PLANTED@127.0.0.1:1",
    "HTTPS_PROXY": "foo://me:PLANTED@x",
    "https_proxy": "foo://me:PLANTED@x",
    "NO_PROXY": "[::1",
    "SSL_CERT_FILE": "/no/such/PLANTED",
}


@pytest.mark.parametrize("name", ODD)
def test_unusable_network_variables_are_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable without its value, is not retried, and stops the run."""
    for other in (*ODD, "HTTP_PROXY", "http_proxy", "all_proxy", "no_proxy", "SSL_CERT_DIR"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, ODD[name])
    provider = OpenRouter(OpenRouterOptions(base_url="https://server.invalid/v1"), environ={})
    call = CallDouble()
    with pytest.raises(LLMError) as caught:
        provider.complete(ASK, call)
    assert name in caught.value.message
    assert caught.value.stops_run
    assert "PLANTED" not in str(caught.value)
    assert [failure.usage and failure.usage.cost_usd for failure in call.failures] == [0]
    expected = ExpectedCalls(request=ASK, workers=1, max_cost_usd=None, deadline=Deadline(60))
    with pytest.raises(UnavailableError, match=name):
        OpenRouter(OpenRouterOptions(base_url="https://server.invalid/v1"), environ={}).preflight(expected)


@pytest.mark.parametrize("name", ODD)
def test_loopback_requests_ignore_network_variables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, ODD[name])
    with LoopbackServer(always(FINE)) as server, provided(server) as provider:
        assert provider.complete(ASK, CallDouble()).message.content == "fine"


@pytest.mark.parametrize("hangs", [False, True])
def test_refusing_proxy_costs_nothing(hangs: bool, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    """F21: the server received nothing, so the cost is 0."""
    over = threading.Event()

    def refuse(listener: socket.socket) -> None:
        came, _ = listener.accept()
        with came:
            assert came.recv(65536).startswith(b"CONNECT server.invalid:443 ")
            if hangs:
                clock.advance(LONG)
            else:
                came.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            over.wait(SLOW)

    with socket.socket() as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        for other in ("ALL_PROXY", "all_proxy", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE"):
            monkeypatch.delenv(other, raising=False)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        refused = pool.submit(refuse, listener)
        provider = OpenRouter(OpenRouterOptions(base_url="https://server.invalid/v1", max_exchanges=1), environ={})
        call = CallDouble()
        with pytest.raises(LLMError, match="connection timed out" if hangs else "cannot reach .* 403 Forbidden"):
            provider.complete(ASK, call)
        over.set()
        refused.result(SLOW)
        provider.close()
    assert [failure.usage and failure.usage.cost_usd for failure in call.failures] == [0]


@pytest.mark.long
def test_200_calls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on its own connection; the second round reuses them."""
    monkeypatch.setattr("agentbench_openrouter.client._KEEP_ALIVE_SEC", 10 * SLOW)
    together = threading.Barrier(200)

    def respond(_: object, __: object) -> Reply:
        together.wait(SLOW)
        return FINE

    with LoopbackServer(respond) as server, provided(server) as provider:
        provider._limiter.start(200)
        with ThreadPoolExecutor(200) as pool:
            for _ in range(2):
                got = list(pool.map(lambda _: provider.complete(ASK, CallDouble()).message.content, range(200)))
                assert got == ["fine"] * 200
        assert len({seen.connection for seen in server.chat_requests}) == 200
        assert len(server.chat_requests) == 400


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SLOW
    while not true():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.01)
