"""The resources that are there, and the threads that wait for one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Generic, TypeVar

from leasepool.deadline import Deadline
from leasepool.errors import PoolClosed, PoolTimeout

T = TypeVar("T")


class Shelf(Generic[T]):
    """Keeps idle resources, and counts all there are. Does not create or close any."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._changed = Condition()
        self._idle: list[T] = []
        self._size = 0
        self._closed = False

    @property
    def size(self) -> int:
        """How many resources there are, idle or not."""
        with self._changed:
            return self._size

    @property
    def idle(self) -> int:
        """How many of them are idle."""
        with self._changed:
            return len(self._idle)

    def take(self, deadline: Deadline, on_wait: Callable[[], object]) -> list[T]:
        """An idle resource, or nothing if there is room for a new one. Waits for either."""
        with self._changed:
            waits = False
            while not self._closed and not self._idle and self._size >= self.limit:
                if deadline.is_over:
                    raise PoolTimeout(f"all {self.limit} resources are in use")
                if not waits:
                    waits = True
                    on_wait()
                self._changed.wait(deadline.remaining())
            if self._closed:
                raise PoolClosed("the pool is closed")
            return [self._idle.pop()] if self._idle else []

    def add(self) -> bool:
        """Count a new resource; False if the shelf was closed meanwhile."""
        with self._changed:
            if self._closed:
                return False
            self._size += 1
            return True

    def put(self, resource: T) -> bool:
        """Make a resource idle; False if the shelf was closed, so that it is not kept."""
        with self._changed:
            if self._closed:
                self._size -= 1
                return False
            self._idle.append(resource)
            self._changed.notify()
            return True

    def remove(self) -> None:
        """A resource that was taken does not come back."""
        with self._changed:
            self._size -= 1

    def close(self) -> list[T]:
        """Take all idle resources, and keep none from now on."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._size -= len(idle)
            self._changed.notify_all()
            return idle
