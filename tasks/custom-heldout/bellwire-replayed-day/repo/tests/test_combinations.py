import pytest

from bellwire import Bus, Clock, debounce, delay, throttle


class Room:
    """A bus, a clock, and what was published as "out"."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.clock = Clock()
        self.out: list[tuple[float, int]] = []
        self.bus.subscribe("out", lambda event: self.out.append((self.clock.now, event.value)))

    def publish_at(self, *times: int) -> None:
        """Publish "in" at these times, with the time as value; the clock stands at the last one then."""
        for time in times:
            self.clock.advance(time - self.clock.now)
            self.bus.publish("in", time)


@pytest.fixture
def room() -> Room:
    return Room()


def test_debounce(room: Room) -> None:
    debounce(room.bus, room.clock, "in", "out", quiet=5)
    room.publish_at(0, 3, 20)
    room.clock.advance(60)
    assert room.out == [(8, 3), (25, 20)]


def test_throttle(room: Room) -> None:
    throttle(room.bus, room.clock, "in", "out", period=10)
    room.publish_at(0, 2, 4, 12, 18, 25, 33, 41, 55)
    assert room.out == [(0, 0), (10, 4), (20, 18), (30, 25), (40, 33), (50, 41)]


def test_delay(room: Room) -> None:
    delay(room.bus, room.clock, "in", "out", seconds=5)
    room.publish_at(0, 1, 7)
    room.clock.advance(5)
    assert room.out == [(5, 0), (6, 1), (12, 7)]
