"""The pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from leasepool.deadline import Deadline
from leasepool.errors import PoolClosed
from leasepool.shelf import Shelf

T = TypeVar("T")


class Pool(Generic[T]):
    """Creates resources when they are needed, and keeps them for those who come next."""

    def __init__(
        self,
        create: Callable[[], T],
        *,
        limit: int,
        close: Callable[[T], object] | None = None,
        check: Callable[[T], bool] | None = None,
        on_wait: Callable[[], object] | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"the limit must be at least 1, not {limit}")
        self._create = create
        self._close = close or (lambda resource: None)
        self._check = check or (lambda resource: True)
        self._on_wait = on_wait or (lambda: None)
        self._shelf: Shelf[T] = Shelf(limit)

    @property
    def size(self) -> int:
        """How many resources there are."""
        return self._shelf.size

    @property
    def idle(self) -> int:
        """How many of them nobody uses."""
        return self._shelf.idle

    def acquire(self, timeout: float | None = None) -> T:
        """A resource to be used until it is released or discarded. Raises PoolTimeout or PoolClosed."""
        deadline = Deadline(timeout)
        while taken := self._shelf.take(deadline, self._on_wait):
            (resource,) = taken
            if self._is_healthy(resource):
                return resource
            self.discard(resource)
        return self._new()

    def _is_healthy(self, resource: T) -> bool:
        try:
            return self._check(resource)
        except BaseException:
            self.discard(resource)
            raise

    def _new(self) -> T:
        resource = self._create()
        if not self._shelf.add():
            self._close(resource)
            raise PoolClosed("the pool was closed")
        return resource

    def release(self, resource: T) -> None:
        """The resource may be used by others."""
        if not self._shelf.put(resource):
            self._close(resource)

    def discard(self, resource: T) -> None:
        """The resource should not be used by anyone."""
        self._shelf.remove()
        self._close(resource)

    @contextmanager
    def lease(self, timeout: float | None = None) -> Iterator[T]:
        """A resource for the time of a ``with`` block."""
        resource = self.acquire(timeout)
        try:
            yield resource
        except BaseException:
            self.discard(resource)
            raise
        self.release(resource)

    def close(self) -> None:
        """Close the idle resources now, and the others when they come back."""
        for resource in self._shelf.close():
            self._close(resource)
