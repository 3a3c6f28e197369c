# agentbench-canary: aa4d31a7-5d7b-4240-b9cb-3c65abf415bc
"""Who gets which event, when each timer runs, and what exceptions change."""

import itertools
import random

import pytest

from bellwire import Bus, Clock, HandlersFailed, debounce, delay, throttle


def log_of(bus, *names):
    """A list to which a handler of "*" appends the value of every event, for each name."""
    log = []
    for name in names:
        bus.subscribe("*", lambda event, name=name: log.append((name, event.value)))
    return log


def test_calls_of_call_every_in_one_advance():
    clock = Clock()
    calls = []
    clock.call_every(10, lambda: calls.append(clock.now))
    clock.advance(60)
    assert len(calls) == 6


def test_calls_of_handlers_that_are_subscribed_meanwhile():
    bus = Bus()
    calls = []
    bus.subscribe("a", lambda event: bus.subscribe("a", lambda event: calls.append(event.value)))
    for number in range(3):
        bus.publish("a", number)
    assert len(calls) == 3


def test_calls_of_handlers_that_cancel_themselves():
    bus = Bus()
    calls = []

    def handler(number):
        def handle(event):
            calls.append(number)
            subscriptions[number].cancel()

        return handle

    subscriptions = [bus.subscribe("a", handler(number)) for number in range(5)]
    bus.publish("a")
    assert len(calls) == 5


def test_event_waits_until_the_one_before_has_been_everywhere():
    bus = Bus()
    log = []
    bus.subscribe("a", lambda event: log.append("first a"))
    bus.subscribe("a", lambda event: (bus.publish("b"), log.append("published")))
    bus.subscribe("b", lambda event: log.append("b"))
    bus.subscribe("a", lambda event: log.append("last a"))
    bus.publish("a")
    assert log == ["first a", "published", "last a", "b"]


def test_order_of_publishing_at_any_depth():
    bus = Bus()
    children = {1: [2, 3], 2: [4, 5], 3: [6], 4: [7], 6: [8, 9]}
    before = log_of(bus, "before")
    bus.subscribe("n", lambda event: [bus.publish("n", child) for child in children.get(event.value, [])])
    after = log_of(bus, "x", "y")
    bus.publish("n", 1)
    assert [value for _, value in before] == list(range(1, 10))
    assert after == [(name, value) for value in range(1, 10) for name in "xy"]


def test_two_handlers_publish():
    bus = Bus()
    bus.subscribe("go", lambda event: bus.publish("out", 1))
    bus.subscribe("go", lambda event: [bus.publish("out", 2), bus.publish("out", 3)])
    bus.subscribe("out", lambda event: bus.publish("echo", event.value * 10))
    log = log_of(bus, "log")
    bus.publish("go", 0)
    assert [value for _, value in log] == [0, 1, 2, 3, 10, 20, 30]


def test_long_chains():
    bus = Bus()
    log = log_of(bus, "log")
    bus.subscribe("n", lambda event: event.value and bus.publish("n", event.value - 1))
    bus.publish("n", 3000)
    assert [value for _, value in log] == list(range(3000, -1, -1))


@pytest.mark.parametrize("who", range(4))
@pytest.mark.parametrize("gone", range(4))
def test_who_cancels_gets_nothing_from_then_on(who, gone):
    bus = Bus()
    log = []

    def handler(number):
        def handle(event):
            log.append(number)
            if number == who:
                subscriptions[gone].cancel()

        return handle

    subscriptions = [bus.subscribe("a", handler(number)) for number in range(4)]
    bus.publish("a")
    assert log == [number for number in range(4) if number <= who or number != gone]
    log.clear()
    bus.publish("a")
    remaining = [number for number in range(4) if number != gone]
    assert log == remaining


def test_all_cancel_themselves():
    bus = Bus()
    log = []
    for number in range(5):
        subscription = bus.subscribe(
            "a", lambda event, number=number: (log.append(number), subscriptions[number].cancel())
        )
        if number == 0:
            subscriptions = []
        subscriptions.append(subscription)
    bus.publish("a")
    bus.publish("a")
    assert log == [0, 1, 2, 3, 4]


def test_waiting_events_do_not_reach_who_has_cancelled():
    bus = Bus()
    log = []

    def handle(event):
        bus.publish("b")
        later.cancel()
        bus.publish("b")

    bus.subscribe("a", handle)
    later = bus.subscribe("b", lambda event: log.append("cancelled"))
    bus.subscribe("b", lambda event: log.append("b"))
    bus.publish("a")
    assert log == ["b", "b"]


def test_new_subscriptions_get_what_is_published_from_then_on():
    bus = Bus()
    log = []

    def handle(event):
        bus.publish("b", 1)
        for topic in ("*", "a", "b"):
            bus.subscribe(topic, lambda event, topic=topic: log.append((topic, event.topic, event.value)))
        bus.publish("b", 2)

    first = bus.subscribe("a", handle)
    bus.publish("a", 0)
    assert log == [("*", "b", 2), ("b", "b", 2)]
    first.cancel()
    log.clear()
    bus.publish("a", 3)
    assert log == [("*", "a", 3), ("a", "a", 3)]


def test_cancelled_and_subscribed_again():
    bus = Bus()
    log = []

    def handle(event):
        bus.publish("b", 1)
        subscriptions.pop().cancel()
        subscriptions.append(bus.subscribe("b", lambda event: log.append(event.value)))
        bus.publish("b", 2)

    bus.subscribe("a", handle)
    subscriptions = [bus.subscribe("b", lambda event: log.append(event.value))]
    bus.publish("a")
    assert log == [2]


def test_handler_that_is_subscribed_twice():
    bus = Bus()
    log = []
    handler = lambda event: log.append(event.value)  # noqa: E731
    first = bus.subscribe("a", handler)
    bus.subscribe("a", handler)
    bus.publish("a", 1)
    first.cancel()
    bus.publish("a", 2)
    assert log == [1, 1, 2]


def raising(bus, error, then=()):
    def handle(event):
        for topic in then:
            bus.publish(topic)
        raise error

    return handle


def test_exceptions_keep_nothing_from_others():
    bus = Bus()
    log = []
    errors = [ValueError("1"), KeyError("2"), RuntimeError("3"), OSError("4")]
    bus.subscribe("a", raising(bus, errors[0], ["b", "c"]))
    bus.subscribe("a", raising(bus, errors[1]))
    bus.subscribe("b", raising(bus, errors[2]))
    bus.subscribe("*", lambda event: log.append(event.topic))
    bus.subscribe("c", raising(bus, errors[3]))
    with pytest.raises(HandlersFailed) as caught:
        bus.publish("a")
    assert caught.value.errors == errors
    assert log == ["a", "b", "c"]


def test_handler_that_publishes_sees_no_exception():
    bus = Bus()
    log = []
    bus.subscribe("a", lambda event: (bus.publish("b"), log.append("went on")))
    bus.subscribe("b", raising(bus, ValueError("b")))
    with pytest.raises(HandlersFailed) as caught:
        bus.publish("a")
    assert log == ["went on"]
    assert [str(error) for error in caught.value.errors] == ["b"]


def test_after_exceptions():
    bus = Bus()
    log = log_of(bus, "log")
    subscription = bus.subscribe("a", raising(bus, ValueError("once"), ["b"]))
    for _ in range(2):
        with pytest.raises(HandlersFailed) as caught:
            bus.publish("a")
        assert len(caught.value.errors) == 1
    subscription.cancel()
    log.clear()
    bus.publish("a", 1)
    assert log == [("log", 1)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_other_exceptions_pass_at_once(error):
    bus = Bus()
    log = []
    bus.subscribe("a", raising(bus, ValueError("lost"), ["b"]))
    interrupting = bus.subscribe("a", raising(bus, error(), ["b"]))
    bus.subscribe("*", lambda event: log.append(event.topic))
    for _ in range(2):
        with pytest.raises(error):
            bus.publish("a")
        assert log == []
        bus.publish("c")
        assert log == ["c"]
        log.clear()
    interrupting.cancel()
    with pytest.raises(HandlersFailed) as caught:
        bus.publish("a")
    assert len(caught.value.errors) == 1
    assert log == ["a", "b"]


def test_buses_are_apart():
    one, other = Bus(), Bus()
    log = log_of(other, "other")
    one.subscribe("a", lambda event: (other.publish("a", 1), log.append("handled")))
    one.publish("a")
    assert log == [("other", 1), "handled"]


def test_timers_that_are_set_by_a_call_take_their_place():
    clock = Clock()
    calls = []

    def call(name, *then):
        def run():
            calls.append((name, clock.now))
            for time, following in then:
                clock.call_at(time, following)

        return run

    clock.call_at(3, call("a", (5, call("b", (6, call("c")), (9, call("e")))), (7, call("last at 7")), (3, call("a2"))))
    clock.call_at(7, call("first at 7", (7, call("very last at 7"))))
    clock.call_at(3, call("a1"))
    clock.advance(8)
    assert calls == [
        ("a", 3),
        ("a1", 3),
        ("a2", 3),
        ("b", 5),
        ("c", 6),
        ("first at 7", 7),
        ("last at 7", 7),
        ("very last at 7", 7),
    ]
    assert (clock.now, clock.pending) == (8, 1)
    clock.advance(1)
    assert calls[-1] == ("e", 9)
    assert (clock.now, clock.pending) == (9, 0)


def test_ticks():
    clock = Clock()
    calls = []

    def tick():
        calls.append(clock.now)
        clock.call_later(10, tick)

    clock.call_at(0, tick)
    clock.advance(35)
    assert calls == [0, 10, 20, 30]
    clock.advance(5)
    clock.advance(0)
    assert calls == [0, 10, 20, 30, 40]
    assert clock.pending == 1


@pytest.mark.parametrize("times", list(itertools.product([1, 2, 3], repeat=4)))
def test_timers_for_the_same_time_run_as_they_were_set(times):
    clock = Clock()
    calls = []
    timers = [clock.call_at(time, lambda number=number: calls.append(number)) for number, time in enumerate(times)]
    timers[1].cancel()
    clock.call_at(2, lambda: calls.append(4))
    clock.advance(3)
    assert calls == sorted([0, 2, 3, 4], key=lambda number: ((*times, 2)[number], number))


@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_cancelled_by_another(gone):
    clock = Clock()
    calls = []
    timers = [clock.call_at(1, lambda: timers[gone].cancel())]
    for number, time in enumerate([1, 1, 2, 3], start=1):
        timers.append(clock.call_at(time, lambda number=number: calls.append(number)))
    clock.advance(5)
    assert calls == [number for number in (1, 2, 3, 4) if number != gone]
    assert clock.pending == 0


def test_cancel_what_has_run():
    clock = Clock()
    calls = []

    def run():
        calls.append(clock.now)
        timer.cancel()

    timer = clock.call_at(1, run)
    clock.call_at(2, run)
    clock.advance(1)
    timer.cancel()
    assert clock.pending == 1
    clock.advance(1)
    assert calls == [1, 2]


def test_cancel_twice_and_set_again():
    clock = Clock()
    calls = []
    timers = [clock.call_at(5, lambda number=number: calls.append(number)) for number in range(3)]
    timers[0].cancel()
    timers[0].cancel()
    assert clock.pending == 2
    clock.call_at(5, lambda: calls.append("again"))
    clock.advance(5)
    assert calls == [1, 2, "again"]


def test_exception_of_a_timer():
    clock = Clock()
    calls = []
    clock.call_at(1, lambda: clock.call_at(2, lambda: calls.append("set by a call")))
    clock.call_at(2, lambda: 1 // 0)
    clock.call_at(2, lambda: calls.append("same time"))
    clock.call_at(5, lambda: calls.append("later"))
    with pytest.raises(ZeroDivisionError):
        clock.advance(10)
    assert (clock.now, clock.pending, calls) == (2, 3, [])
    clock.advance(0)
    assert calls == ["same time", "set by a call"]
    clock.advance(3)
    assert (clock.now, calls[-1]) == (5, "later")


@pytest.mark.parametrize("steps", [[60], [1] * 60, [7] * 8 + [4], [25, 0, 35]], ids=len)
def test_call_every(steps):
    clock = Clock()
    calls = []
    clock.call_every(10, lambda: calls.append((clock.now, "ten")))
    clock.call_every(25, lambda: calls.append((clock.now, "twenty-five")))
    clock.call_at(50, lambda: calls.append((clock.now, "once")))
    for step in steps:
        clock.advance(step)
    assert calls == [
        (10, "ten"),
        (20, "ten"),
        (25, "twenty-five"),
        (30, "ten"),
        (40, "ten"),
        (50, "once"),
        (50, "twenty-five"),
        (50, "ten"),
        (60, "ten"),
    ]
    assert clock.pending == 2


@pytest.mark.parametrize("steps", [[100], [1] * 100, [9] * 12], ids=len)
@pytest.mark.parametrize("number", [1, 2, 5])
def test_call_every_that_cancels_itself(number, steps):
    clock = Clock()
    calls = []

    def run():
        calls.append(clock.now)
        if len(calls) == number:
            timer.cancel()

    timer = clock.call_every(10, run)
    for step in steps:
        clock.advance(step)
    assert calls == [10 * count for count in range(1, number + 1)]
    assert clock.pending == 0


@pytest.mark.parametrize("steps", [[100], [1] * 100], ids=len)
@pytest.mark.parametrize("time", [15, 20, 30])
def test_call_every_that_is_cancelled_by_another(time, steps):
    clock = Clock()
    calls = []
    clock.call_at(time, lambda: timer.cancel())
    timer = clock.call_every(10, lambda: calls.append(clock.now))
    for step in steps:
        clock.advance(step)
    assert calls == [count for count in (10, 20, 30) if count < time]
    assert clock.pending == 0


def test_call_every_is_set_before_it_is_called():
    clock = Clock()
    calls = []

    def run():
        calls.append((clock.now, "every"))
        clock.call_later(10, lambda: calls.append((clock.now, "set by it")))

    clock.call_every(10, run)
    clock.advance(30)
    assert calls == [(10, "every"), (20, "every"), (20, "set by it"), (30, "every"), (30, "set by it")]


def test_call_every_goes_on_after_exceptions():
    clock = Clock()
    calls = []

    def run():
        calls.append(clock.now)
        if clock.now == 20:
            raise RuntimeError

    clock.call_every(10, run)
    other = clock.call_every(20, lambda: calls.append("other"))
    with pytest.raises(RuntimeError):
        clock.advance(100)
    assert (clock.now, clock.pending) == (20, 2)
    clock.advance(20)
    other.cancel()
    clock.advance(10)
    assert calls == [10, "other", 20, 30, "other", 40, 50]
    assert clock.pending == 1


def some_program(seed, clock, calls):
    """Timers that set and cancel timers."""
    chance = random.Random(seed)
    plan = [
        (chance.randrange(20), chance.choice("sseccn"), chance.randrange(6), chance.randrange(60)) for _ in range(60)
    ]
    timers = []

    def add(number, time):
        timers.append(clock.call_at(time, lambda: run(number)))

    def run(number):
        _, what, wait, other = plan[number]
        calls.append((clock.now, number))
        if what == "s" and len(timers) < 200:
            add(other, clock.now + wait)
        elif what == "e" and len(timers) < 200:
            timers.append(clock.call_every(wait + 5, lambda: calls.append((clock.now, "every", number))))
        elif what == "c":
            timers[other % len(timers)].cancel()

    for number, (time, *_) in enumerate(plan[:30]):
        add(number, time)


@pytest.mark.parametrize("seed", range(25))
def test_steps_do_not_matter(seed):
    logs = []
    for steps in ([100], [1] * 100, [3] * 33 + [1], [0, 7, 0.5, 0.5, 40, 52]):
        clock, calls = Clock(), []
        some_program(seed, clock, calls)
        for step in steps:
            clock.advance(step)
        assert clock.now == 100
        logs.append((calls, clock.pending))
    assert logs[0] == logs[1] == logs[2] == logs[3]
    times = [time for time, *_ in logs[0][0]]
    assert times == sorted(times)
    assert len(times) >= 20


def replay(combine, times, steps):
    """What a combination publishes when "in" is published at these times, whose timers were set before."""
    bus, clock = Bus(), Clock()
    out = []
    combine(bus, clock)
    bus.subscribe("out", lambda event: out.append((clock.now, event.value)))
    for number, time in enumerate(times):
        clock.call_at(time, lambda number=number: bus.publish("in", number))
    for step in steps:
        clock.advance(step)
    return out


STEPS = [[100], [1] * 100, [9] * 12]


@pytest.mark.parametrize("steps", STEPS, ids=len)
@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0], [(5, 0)]),
        ([0, 3, 20], [(8, 1), (25, 2)]),
        ([0, 5], [(10, 1)]),
        ([0, 5, 10, 15], [(20, 3)]),
        ([1, 1, 1], [(6, 2)]),
        ([0, 6, 7, 13], [(5, 0), (12, 2), (18, 3)]),
    ],
)
def test_debounce(times, expected, steps):
    assert replay(lambda bus, clock: debounce(bus, clock, "in", "out", 5), times, steps) == expected


@pytest.mark.parametrize("steps", STEPS, ids=len)
@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 2, 4, 12, 25, 50], [(0, 0), (10, 2), (20, 3), (30, 4), (50, 5)]),
        ([0, 10], [(0, 0), (10, 1)]),
        ([3, 4, 13, 14, 43], [(3, 0), (13, 2), (23, 3), (43, 4)]),
    ],
)
def test_throttle(times, expected, steps):
    assert replay(lambda bus, clock: throttle(bus, clock, "in", "out", 10), times, steps) == expected


@pytest.mark.parametrize("steps", STEPS, ids=len)
def test_combined(steps):
    def combine(bus, clock):
        delay(bus, clock, "in", "delayed", 2)
        debounce(bus, clock, "delayed", "settled", 5)
        delay(bus, clock, "settled", "out", 1)

    assert replay(combine, [0, 4, 30, 35, 36], steps) == [(12, 1), (38, 2), (44, 4)]


def test_events_and_timers():
    bus, clock = Bus(), Clock()
    log = []
    bus.subscribe("start", lambda event: clock.call_later(0, lambda: bus.publish("timer", event.value)))
    bus.subscribe("start", lambda event: bus.publish("handler", event.value))
    bus.subscribe("*", lambda event: log.append((clock.now, event.topic, event.value)))
    for time in (1, 2):
        clock.call_at(time, lambda time=time: bus.publish("start", time))
    clock.advance(5)
    assert log == [(time, topic, time) for time in (1, 2) for topic in ("start", "handler", "timer")]


def test_failed_handlers_of_a_timer():
    bus, clock = Bus(), Clock()
    log = log_of(bus, "log")
    bus.subscribe("bad", raising(bus, ValueError("bad")))
    clock.call_at(1, lambda: bus.publish("bad", 1))
    clock.call_at(2, lambda: bus.publish("good", 2))
    with pytest.raises(HandlersFailed):
        clock.advance(5)
    assert clock.now == 1
    clock.advance(1)
    assert log == [("log", 1), ("log", 2)]
