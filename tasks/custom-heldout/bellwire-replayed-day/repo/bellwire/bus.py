"""Events, and who gets them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EVERYTHING = "*"


@dataclass(frozen=True)
class Event:
    """Something that was published."""

    topic: str
    value: Any = None


Handler = Callable[[Event], object]


class HandlersFailed(Exception):
    """Handlers raised exceptions; ``errors`` has them in order."""

    def __init__(self, errors: list[Exception]) -> None:
        super().__init__("; ".join(f"{type(error).__name__}: {error}" for error in errors))
        self.errors = errors


class Subscription:
    """A handler's place on the bus."""

    def __init__(self, bus: Bus, topic: str, handler: Handler) -> None:
        self.topic = topic
        self.handler = handler
        self._bus = bus

    def wants(self, event: Event) -> bool:
        """Whether the event is of the topic."""
        return self.topic in (event.topic, EVERYTHING)

    def cancel(self) -> None:
        """Get no more events."""
        self._bus.leave(self)

    def __repr__(self) -> str:
        return f"<Subscription to {self.topic!r}>"


class Bus:
    """Takes events to handlers."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._waiting: deque[Event] = deque()
        self._delivering = False

    def subscribe(self, topic: str, handler: Handler) -> Subscription:
        """Call ``handler(event)`` for the events of a topic."""
        subscription = Subscription(self, topic, handler)
        self._subscriptions.append(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscription, if it is known."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def publish(self, topic: str, value: Any = None) -> None:
        """Deliver an event to the handlers of its topic, or let it wait if another one is being delivered.

        Raises HandlersFailed after the last one.
        """
        self._waiting.append(Event(topic, value))
        if self._delivering:
            return
        errors: list[Exception] = []
        self._delivering = True
        try:
            while self._waiting:
                errors += self._deliver(self._waiting.popleft())
        finally:
            self._delivering = False
            self._waiting.clear()
        if errors:
            raise HandlersFailed(errors)

    def _deliver(self, event: Event) -> list[Exception]:
        """Call the handlers of one event, and return what they raised."""
        errors: list[Exception] = []
        for subscription in self._subscriptions:
            if not subscription.wants(event):
                continue
            try:
                subscription.handler(event)
            except Exception as error:
                errors.append(error)
        return errors
