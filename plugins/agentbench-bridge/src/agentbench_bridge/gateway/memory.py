"""Memory for request bodies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Memory:
    """A number of bytes that requests share. Used in the event loop only."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[Reserved]:
        """Reserve bytes, at most the total. Waits for other requests."""
        while size > self._left:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        reserved = Reserved(self, size)
        self._left -= size
        try:
            yield reserved
        finally:
            reserved.shrink(0)

    def give_back(self, size: int) -> None:
        """Return bytes, and wake waiting requests."""
        self._left += size
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Reserved:
    """Reserved bytes."""

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory = memory
        self._size = size

    def shrink(self, size: int) -> None:
        """Give back all but ``size`` bytes."""
        if size < self._size:
            self._memory.give_back(self._size - size)
            self._size = size
