"""Work that many threads need and one of them does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from agentbench_core.errors import SetupError
from agentbench_core.values.limits import Deadline

T = TypeVar("T")


class Once(Generic[T]):
    """Results by key, each made by the first thread that asks; the others wait until it is done, or all is stopped.

    A SetupError is a result too: it is raised for everyone. Any other error concerns only the thread that met
    it, and the next one tries again.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._made: dict[Hashable, T | SetupError] = {}

    def get(
        self,
        key: Hashable,
        make: Callable[[], T],
        stop: Deadline,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> T:
        """The result for ``key``; ``waited`` is told for how many seconds another thread was making it."""
        if key in self._made:
            return self._result(key)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        began = time.monotonic()
        while not lock.acquire(timeout=0.2):  # short, so that an interrupt is seen
            stop.check()
        try:
            waited(time.monotonic() - began)
            if key not in self._made:
                try:
                    self._made[key] = make()
                except SetupError as error:
                    self._made[key] = error
        finally:
            lock.release()
        return self._result(key)

    def _result(self, key: Hashable) -> T:
        made = self._made[key]
        if isinstance(made, SetupError):
            raise made
        return made
