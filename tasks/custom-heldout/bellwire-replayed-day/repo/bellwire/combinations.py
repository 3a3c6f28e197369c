"""Events that are made from other events, with time in between."""

from __future__ import annotations

from typing import Any

from bellwire.bus import Bus, Event
from bellwire.clock import Clock, Timer


def debounce(bus: Bus, clock: Clock, source: str, target: str, quiet: float) -> None:
    """Publish the latest value once nothing came for some time."""
    timer: Timer | None = None

    def on_source(event: Event) -> None:
        nonlocal timer
        if timer is not None:
            timer.cancel()
        timer = clock.call_later(quiet, lambda: bus.publish(target, event.value))

    bus.subscribe(source, on_source)


def throttle(bus: Bus, clock: Clock, source: str, target: str, period: float) -> None:
    """Publish at most one value each period: the first at once, the latest of each period at its end."""
    resting = False
    latest: list[Any] = []

    def on_source(event: Event) -> None:
        nonlocal resting
        if resting:
            latest[:] = [event.value]
        else:
            resting = True
            clock.call_later(period, on_end)
            bus.publish(target, event.value)

    def on_end() -> None:
        nonlocal resting
        if latest:
            clock.call_later(period, on_end)
            bus.publish(target, latest.pop())
        else:
            resting = False

    bus.subscribe(source, on_source)


def delay(bus: Bus, clock: Clock, source: str, target: str, seconds: float) -> None:
    """Publish every value later."""
    bus.subscribe(source, lambda event: clock.call_later(seconds, lambda: bus.publish(target, event.value)))
