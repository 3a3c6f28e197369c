"""Faults between workers and the process that writes the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import UnavailableError
from tests.run.remote import memory_executor
from tests.run.remote.memory_executor import Call

Document = Mapping[str, Any]
REGULAR = ("beat",)
"""Methods whose number of calls depends on time."""


@attrs.define
class Calls:
    """The calls of some workers, except beats, in order."""

    workers: tuple[str, ...] = ("w1", "w2")
    made: list[tuple[str, Document]] = attrs.field(factory=list)

    def disturb(self, name: str, call: Call) -> Call:
        """Record the calls of a worker."""

        def recorded(method: str, document: Document) -> Iterator[Document]:
            if name in self.workers and method not in REGULAR:
                self.made.append((method, document))
            return call(method, document)

        return recorded

    @property
    def methods(self) -> list[str]:
        """The methods, in order."""
        return [method for method, _ in self.made]


@attrs.define
class Death:
    """Worker ``w1`` ends at one of its calls, before or after it has reached the coordinator.

    Others begin when it is dead, or has ended without reaching that call.
    """

    at: int
    """Number of the call, from 1."""
    arrives: bool
    died: Callable[[], None] = lambda: None
    """Called when it dies."""
    dead: threading.Event = attrs.field(factory=threading.Event)
    over: threading.Event = attrs.field(factory=threading.Event)
    _calls: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def disturb(self, name: str, call: Call) -> Call:
        """Let ``w1`` die, and others wait for it."""
        return self._dying(call) if name == "w1" else self._waiting(call)

    def _dying(self, call: Call) -> Call:
        def dying(method: str, document: Document) -> Iterator[Document]:
            with self._lock:
                self._calls += method not in REGULAR
                last = self._calls == self.at and method not in REGULAR and not self.dead.is_set()
                if last and not self.arrives:
                    self._die()
            if self.dead.is_set():
                raise UnavailableError("killed")
            for part in call(method, document):
                if last:
                    continue
                if "ended" in part:
                    self.over.set()
                yield part
            if last:
                with self._lock:
                    self._die()
                raise UnavailableError("killed")

        return dying

    def _die(self) -> None:
        self.dead.set()
        self.died()
        self.over.set()

    def _waiting(self, call: Call) -> Call:
        def waiting(method: str, document: Document) -> Iterator[Document]:
            if method == "hello":
                assert self.over.wait(30)
            return call(method, document)

        return waiting


def disturb(*each: Callable[[str, Call], Call]) -> None:
    """Replace the disturbances of all workers."""
    memory_executor.DISTURB[:] = each


@attrs.define
class Deaths:
    """Every worker dies when it calls a method, once each, until ``most`` have died."""

    method: str
    died: Callable[[str], None]
    """Called with the name of a worker that dies."""
    most: int = 1000
    dead: set[str] = attrs.field(factory=set)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def disturb(self, name: str, call: Call) -> Call:
        """Let a worker die."""

        def dying(method: str, document: Document) -> Iterator[Document]:
            with self._lock:
                if method == self.method and name not in self.dead and len(self.dead) < self.most:
                    self.dead.add(name)
                    self.died(name)
            if name in self.dead:
                raise UnavailableError("killed")
            return call(method, document)

        return dying
