import pytest

from bellwire import Bus, Event, HandlersFailed


def test_topics() -> None:
    bus = Bus()
    seen: list[tuple[str, Event]] = []
    for topic in ("a", "*", "b"):
        bus.subscribe(topic, lambda event, topic=topic: seen.append((topic, event)))
    bus.publish("a", 1)
    bus.publish("b")
    assert seen == [("a", Event("a", 1)), ("*", Event("a", 1)), ("*", Event("b")), ("b", Event("b"))]


def test_cancel() -> None:
    bus = Bus()
    seen: list[Event] = []
    subscription = bus.subscribe("a", seen.append)
    bus.publish("a", 1)
    subscription.cancel()
    subscription.cancel()
    bus.publish("a", 2)
    assert seen == [Event("a", 1)]


def test_once() -> None:
    bus = Bus()
    seen: list[str] = []

    def once(event: Event) -> None:
        seen.append("once")
        subscription.cancel()

    subscription = bus.subscribe("a", once)
    bus.subscribe("a", lambda event: seen.append("always"))
    bus.publish("a")
    bus.publish("a")
    assert seen == ["once", "always", "always"]


def test_handler_that_publishes() -> None:
    bus = Bus()
    seen: list[str] = []
    bus.subscribe("a", lambda event: bus.publish("b"))
    bus.subscribe("b", lambda event: seen.append(event.topic))
    bus.publish("a")
    assert seen == ["b"]


def test_all_see_the_same_order() -> None:
    bus = Bus()
    first: list[str] = []
    last: list[str] = []
    bus.subscribe("*", lambda event: first.append(event.topic))
    bus.subscribe("order", lambda event: bus.publish("invoice"))
    bus.subscribe("*", lambda event: last.append(event.topic))
    bus.publish("order")
    assert first == last == ["order", "invoice"]


def test_exceptions() -> None:
    bus = Bus()
    seen: list[Event] = []
    bus.subscribe("a", lambda event: 1 // event.value)
    bus.subscribe("a", seen.append)
    bus.subscribe("a", lambda event: [][event.value])
    with pytest.raises(HandlersFailed, match="ZeroDivisionError") as caught:
        bus.publish("a", 0)
    assert [type(error) for error in caught.value.errors] == [ZeroDivisionError, IndexError]
    assert seen == [Event("a", 0)]


def test_interrupt_passes() -> None:
    bus = Bus()
    seen: list[Event] = []

    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    bus.subscribe("a", interrupt)
    bus.subscribe("*", seen.append)
    with pytest.raises(KeyboardInterrupt):
        bus.publish("a")
    bus.publish("b")
    assert seen == [Event("b")]
