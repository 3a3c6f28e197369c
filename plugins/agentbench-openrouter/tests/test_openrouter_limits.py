"""Limits that the calls of a provider share: concurrency, outages, and errors that stop the run."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench_core import Deadline, Interrupted, LLMError, Message, Request
from agentbench_openrouter.limiter import COOLDOWN_SEC, PROBE_EVERY_SEC, Limiter
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import CallDouble, FakeClock, Told
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
AT_ONCE = Timing(sleep=lambda _, __: None, uniform=lambda low, _: low)
SLOW = 60.0
"""Seconds: much longer than anything here takes, even on a slow machine."""


def made(server: LoopbackServer, timing: Timing = AT_ONCE, **more: Any) -> OpenRouter:
    return OpenRouter(OpenRouterOptions(base_url=server.base_url, **more), environ={}, timing=timing)


class AtOnce:
    """A responder that counts concurrent requests; ``most`` is the maximum."""

    def __init__(self, responder: Responder) -> None:
        self.most = 0
        self._responder = responder
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, request: Mapping[str, Any], seen: Seen) -> Reply:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        reply = self._responder(request, seen)
        with self._lock:
            self._now -= 1
        return reply


# --- the breaker ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [error(401, "User not found"), error(402, "Insufficient credits")])
def test_a_key_that_is_refused_stops_the_run(reply: Reply) -> None:
    """F20: every later call fails immediately with the same message, and nothing is sent."""
    with LoopbackServer(in_turn(reply, FINE)) as server:
        provider = made(server)
        with pytest.raises(LLMError) as first:
            provider.complete(ASK, CallDouble())
        call = CallDouble()
        with pytest.raises(LLMError) as second:
            provider.complete(ASK, call)
        provider.close()
        assert len(server.chat_requests) == 1
    assert first.value.stops_run
    assert second.value.stops_run
    assert str(first.value) == str(second.value)
    assert first.value.remedy
    assert [(failure.error, failure.usage and failure.usage.cost_usd) for failure in call.failures] == [("not_sent", 0)]


def test_a_key_that_is_refused_stops_calls_that_wait() -> None:
    """F20: calls that are waiting to retry fail as well."""
    waits, refused = threading.Event(), threading.Event()

    def sleep(_: float, __: Deadline) -> None:
        waits.set()
        assert refused.wait(SLOW)

    with LoopbackServer(in_turn(error(500), error(401), FINE)) as server, ThreadPoolExecutor(1) as pool:
        provider = made(server, Timing(sleep=sleep))
        waiting = pool.submit(provider.complete, ASK, CallDouble())
        assert waits.wait(SLOW)
        with pytest.raises(LLMError, match="401"):
            provider.complete(ASK, CallDouble())
        refused.set()
        with pytest.raises(LLMError, match="401") as caught:
            waiting.result(SLOW)
        provider.close()
        assert len(server.chat_requests) == 2
    assert caught.value.stops_run


@pytest.mark.parametrize("status", [403, 404])
def test_three_refusals_in_a_row_stop_the_run(status: int) -> None:
    with LoopbackServer(always(error(status, "not for you"))) as server:
        provider = made(server)
        stops = []
        for _ in range(4):
            with pytest.raises(LLMError) as caught:
                provider.complete(ASK, CallDouble())
            stops.append(caught.value.stops_run)
        provider.close()
        assert len(server.chat_requests) == 3
    assert stops == [False, False, True, True]


def test_refusals_between_successes_do_not_stop_the_run() -> None:
    replies = (error(403), error(403), FINE, error(403), error(403), FINE)
    with LoopbackServer(in_turn(*replies)) as server:
        provider = made(server)
        for reply in replies:
            if reply is FINE:
                provider.complete(ASK, CallDouble())
                continue
            with pytest.raises(LLMError) as caught:
                provider.complete(ASK, CallDouble())
            assert not caught.value.stops_run
        provider.close()


@pytest.mark.long
def test_outages_do_not_stop_the_run() -> None:
    """F19: until the server recovers, calls wait, and only one probe is sent per interval."""
    clock, responder = FastClock(), AtOnce(always(error(503)))
    with LoopbackServer(responder) as server, ThreadPoolExecutor(3) as pool:
        provider = made(server, Timing(clock=clock, sleep=lambda _, __: None), timeout_sec=100 * SLOW)
        for _ in range(3):
            with pytest.raises(LLMError, match="after 6 exchanges") as caught:
                provider.complete(ASK, CallDouble())
            assert not caught.value.stops_run
        assert len(server.chat_requests) == 18
        calls, began = [CallDouble() for _ in range(3)], clock.now
        for lost in [pool.submit(provider.complete, ASK, call) for call in calls]:
            with pytest.raises(LLMError) as caught:
                lost.result(4 * SLOW)
            assert not caught.value.stops_run
        took = clock.now - began
        assert len(server.chat_requests) - 18 <= took / PROBE_EVERY_SEC + 1
        provider.close()
    assert responder.most == 1
    assert all(call.waited > PROBE_EVERY_SEC for call in calls)


def test_all_waiting_calls_are_answered_after_an_outage() -> None:
    """F19: all waiting calls are answered; only the calls that detected the outage fail."""
    clock = FastClock()
    down = [error(502)] * 18 + [error(502)] * 2
    with LoopbackServer(in_turn(*down, answer("fine", delay=0.2))) as server, ThreadPoolExecutor(6) as pool:
        provider = made(server, Timing(clock=clock, sleep=lambda _, __: None), timeout_sec=100 * SLOW)
        for _ in range(3):
            with pytest.raises(LLMError):
                provider.complete(ASK, CallDouble())
        waiting = [pool.submit(provider.complete, ASK, CallDouble()) for _ in range(6)]
        assert [found.result(4 * SLOW).message.content for found in waiting] == ["fine"] * 6
        assert provider._limiter.limit == 8
        provider.close()
        assert len(server.chat_requests) == 18 + 2 + 6


def test_calls_that_wait_in_an_outage_fail_with_the_reason() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    for _ in range(3):
        limiter.gave_up()
    over = Deadline(60)
    threading.Timer(0.3, over.end, [Interrupted("any")]).start()
    with pytest.raises(LLMError, match=r"the server is down \(3 consecutive calls"), limiter.slot(CallDouble(), over):
        pass


def test_rejected_requests_do_not_count_as_an_outage() -> None:
    with LoopbackServer(always(error(400, "bad tool"))) as server:
        provider = made(server)
        for _ in range(5):
            with pytest.raises(LLMError, match="bad tool"):
                provider.complete(ASK, CallDouble())
        provider.close()


def test_closed_idle_connection_does_not_count_as_an_outage() -> None:
    call = CallDouble()
    with LoopbackServer(in_turn(FINE, Reply(close=True), FINE)) as server:
        provider = made(server, Timing(clock=FastClock()))
        provider.complete(ASK, CallDouble())
        for _ in range(3):
            provider._limiter.gave_up()
        provider._limiter._not_before = 0.0
        assert provider.complete(ASK, call).message.content == "fine"
        provider.close()
    assert (len(call.failures), call.waited) == (1, 0)


class FastClock:
    """A clock that runs a hundred times as fast as real time."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        return (time.monotonic() - self._began) * 100

    def __call__(self) -> float:
        return self.now


# --- the limiter alone ---------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_limit_decreases_once_per_cooldown_and_stays_above_zero() -> None:
    """F18: overload responses within a cooldown reduce the limit only once, and never below 1."""
    clock = Clock()
    limiter = Limiter(clock)
    limiter.start(10)
    limits = []
    for _ in range(12):
        for _ in range(5):
            limiter.overloaded()
        limits.append(limiter.limit)
        clock.now += COOLDOWN_SEC
    assert limits == [8, 6, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]


def test_limit_grows_per_clean_round_up_to_its_initial_value() -> None:
    limiter = Limiter(Clock())
    limiter.start(4)
    limiter.overloaded()
    assert limiter.limit == 3
    limiter.clean()
    limiter.clean()
    limiter.unhealthy()  # restarts the round
    limiter.clean()
    limiter.clean()
    assert limiter.limit == 3
    limiter.clean()
    assert limiter.limit == 4
    for _ in range(20):
        limiter.clean()
    assert limiter.limit == 4


def test_retry_hint_for_one_call_delays_all_calls() -> None:
    """F18: a server's hint to one call delays all calls, but for a minute at most."""
    clock = Clock()
    limiter = Limiter(clock)
    limiter.pause(7.0)
    entered = threading.Event()

    def use() -> None:
        with limiter.slot(CallDouble(), Deadline(600)):
            entered.set()

    with ThreadPoolExecutor(2) as pool:
        users = [pool.submit(use) for _ in range(2)]
        assert not entered.wait(0.5)
        clock.now = 7.0
        for user in users:
            user.result(SLOW)
        limiter.pause(86_400.0)
        clock.now += 60.0
        pool.submit(use).result(SLOW)


def test_large_limits_grow_proportionally() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    limiter.start(200)
    limiter.overloaded()
    for _ in range(160):
        limiter.clean()
    assert limiter.limit == 168


def test_slots_are_assigned_in_order_of_arrival() -> None:
    limiter = Limiter(time.monotonic)
    limiter.start(1)
    order: list[int] = []
    going = threading.Event()

    def use(number: int) -> None:
        with limiter.slot(CallDouble(), Deadline(600)):
            order.append(number)
            assert going.wait(SLOW)

    with ThreadPoolExecutor(5) as pool:
        users = []
        for number in range(5):
            users.append(pool.submit(use, number))
            wait_until(lambda: bool(order) and len(limiter._queue) == len(users) - 1)
        going.set()
        for user in users:
            user.result(SLOW)
    assert order == [0, 1, 2, 3, 4]


def test_time_in_the_queue_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    queued = threading.Event()

    class Turn(threading.Event):
        """Waiting in the queue takes ten seconds."""

        def wait(self, timeout: float | None = None) -> bool:
            clock.advance(10.0)
            queued.set()
            return super().wait(timeout)

    monkeypatch.setattr("agentbench_openrouter.limiter.threading", SimpleNamespace(Event=Turn, Lock=threading.Lock))
    limiter = Limiter(clock)
    limiter.start(1)
    call = CallDouble(deadline=clock.deadline(5.0))  # shorter than the wait in the queue

    def use() -> float:
        with limiter.slot(call, Deadline(600)):
            return call.deadline.remaining()

    with ThreadPoolExecutor(1) as pool:
        with limiter.slot(CallDouble(), Deadline(600)):
            waiting = pool.submit(use)
            assert queued.wait(SLOW)
        assert waiting.result(SLOW) == 5.0
    assert call.waited >= 10.0


def test_calls_that_leave_the_queue_take_no_slot() -> None:
    limiter = Limiter(time.monotonic)
    limiter.start(1)
    deadline = Deadline(600)

    def use(until: Deadline, total: Deadline) -> None:
        with limiter.slot(CallDouble(deadline=until), total):
            pass

    with ThreadPoolExecutor(2) as pool:
        with limiter.slot(CallDouble(), Deadline(600)):
            stopped = pool.submit(use, deadline, Deadline(600))
            late = pool.submit(use, Deadline(600), Deadline(0.3))
            wait_until(lambda: len(limiter._queue) > 0)
            deadline.end(Interrupted("stopped"))
            with pytest.raises(Interrupted):
                stopped.result(SLOW)
            with pytest.raises(LLMError, match=r"no slot became free within 0\.3 s"):
                late.result(SLOW)
        pool.submit(use, Deadline(600), Deadline(600)).result(SLOW)
    assert limiter._active == 0
    assert not limiter._queue


# --- the limiter in a provider -------------------------------------------------------------------------------------


def test_overloaded_server_gets_fewer_concurrent_calls() -> None:
    """F18: the shared limit decreases, so that not every call must be refused first; all are answered in the end."""
    busy, refused = threading.Semaphore(2), threading.Event()

    def respond(_: object, __: object) -> Reply:
        if not busy.acquire(blocking=False):
            refused.set()
            return error(429)
        assert refused.wait(SLOW)
        time.sleep(0.02)
        busy.release()
        return FINE

    with LoopbackServer(respond) as server:
        ticks = iter(range(10**6))
        timing = Timing(clock=lambda: next(ticks) / 10.0, sleep=lambda _, __: time.sleep(0.01))
        provider = OpenRouter(
            OpenRouterOptions(base_url=server.base_url, max_exchanges=1000, timeout_sec=1e9, exchange_timeout_sec=60),
            environ={},
            timing=timing,
        )
        provider._limiter.start(16)
        with ThreadPoolExecutor(16) as pool:
            got = list(pool.map(lambda _: provider.complete(ASK, CallDouble()).message.content, range(60)))
        provider.close()
    assert got == ["fine"] * 60
    assert provider._limiter.limit < 16


def test_calls_that_wait_for_budget_hold_no_slot() -> None:
    """A call that waits for budget holds no slot, since calls that have budget would wait for that slot forever."""
    paid, waits = threading.Event(), threading.Event()

    def listen(told: Told) -> None:
        if told.what == "again":
            waits.set()
            assert paid.wait(SLOW), "the other call was not answered meanwhile"

    with LoopbackServer(in_turn(error(500), FINE)) as server, ThreadPoolExecutor(1) as pool:
        provider = made(server)
        provider._limiter.start(1)
        unpaid = pool.submit(provider.complete, ASK, CallDouble(listen=listen))
        assert waits.wait(SLOW)
        assert provider.complete(ASK, CallDouble()).message.content == "fine"
        paid.set()
        assert unpaid.result(SLOW).message.content == "fine"
        provider.close()


def test_exchange_without_a_slot_is_reported_as_not_sent() -> None:
    deadline = Deadline(600)
    call = CallDouble(deadline=deadline)
    with LoopbackServer(in_turn(error(500), Reply(hang=True))) as server, ThreadPoolExecutor(2) as pool:
        provider = made(server)
        provider._limiter.start(1)
        other = CallDouble()
        entered = threading.Event()
        call._listen = lambda told: _fill(provider, other, pool, entered) if told.what == "again" else None
        stopped = pool.submit(provider.complete, ASK, call)
        assert entered.wait(SLOW)
        wait_until(lambda: len(provider._limiter._queue) == 1 and len(server.chat_requests) == 2)
        deadline.end(Interrupted("stopped"))
        with pytest.raises(Interrupted):
            stopped.result(SLOW)
        provider.close()
        assert len(server.chat_requests) == 2
    assert [failure.error for failure in call.failures] == ["transient", "not_sent"]


def _fill(provider: OpenRouter, other: CallDouble, pool: ThreadPoolExecutor, done: threading.Event) -> None:
    """Another call takes the only slot."""
    pool.submit(provider.complete, ASK, other)
    wait_until(lambda: provider._limiter._active == 1)
    done.set()


def test_concurrent_calls_do_not_exceed_the_limit() -> None:
    queue_is_full = threading.Event()

    def respond(_: object, __: object) -> Reply:
        assert queue_is_full.wait(SLOW)
        time.sleep(0.02)
        return FINE

    responder = AtOnce(respond)
    with LoopbackServer(responder) as server, ThreadPoolExecutor(12) as pool:
        provider = made(server, Timing())
        provider._limiter.start(3)
        calls = [CallDouble() for _ in range(12)]
        asked = [pool.submit(provider.complete, ASK, call) for call in calls]
        wait_until(lambda: len(provider._limiter._queue) == 9)
        queue_is_full.set()
        for each in asked:
            each.result(SLOW)
        provider.close()
    assert responder.most == 3
    assert sum(call.waited > 0 for call in calls) >= 6


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SLOW
    while not true():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.01)
