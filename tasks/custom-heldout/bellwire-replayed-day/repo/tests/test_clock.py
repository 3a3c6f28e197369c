import pytest

from bellwire import Clock


def test_order() -> None:
    clock = Clock()
    calls: list[tuple[str, float]] = []
    for name, time in [("c", 7), ("a", 3), ("d", 7), ("b", 5), ("e", 7.5)]:
        clock.call_at(time, lambda name=name: calls.append((name, clock.now)))
    clock.advance(2)
    assert calls == []
    clock.advance(5)
    assert calls == [("a", 3), ("b", 5), ("c", 7), ("d", 7)]
    assert (clock.now, clock.pending) == (7, 1)


def test_call_later() -> None:
    clock = Clock(100)
    calls: list[float] = []
    clock.call_later(5, lambda: calls.append(clock.now))
    clock.advance(10)
    assert calls == [105]
    assert clock.now == 110


def test_cancel() -> None:
    clock = Clock()
    calls: list[str] = []
    timer = clock.call_at(1, lambda: calls.append("a"))
    clock.call_at(2, lambda: calls.append("b"))
    timer.cancel()
    clock.advance(3)
    timer.cancel()
    assert calls == ["b"]


def test_timer_that_sets_itself_again() -> None:
    clock = Clock()
    calls: list[float] = []

    def tick() -> None:
        calls.append(clock.now)
        clock.call_later(10, tick)

    clock.call_at(5, tick)
    for _ in range(4):
        clock.advance(10)
    assert calls == [5, 15, 25, 35]


def test_call_every() -> None:
    clock = Clock(100)
    calls: list[float] = []
    timer = clock.call_every(10, lambda: calls.append(clock.now))
    for _ in range(7):
        clock.advance(5)
    timer.cancel()
    clock.advance(50)
    assert calls == [110, 120, 130]
    assert clock.pending == 0
    with pytest.raises(ValueError, match="between calls"):
        clock.call_every(0, print)


def test_not_in_the_past() -> None:
    clock = Clock(5)
    with pytest.raises(ValueError, match="too late"):
        clock.call_at(4, print)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
