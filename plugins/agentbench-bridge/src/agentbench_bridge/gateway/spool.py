"""Answers of the provider: written by the thread that forwards a request, read by clients in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Mapping
from typing import BinaryIO

import attrs

BLOCK = 64 * 1024
"""Bytes of each answer that are kept in memory; whole blocks are moved to a file."""

LONGEST = 256 * 1024 * 1024
"""Maximum bytes of an answer."""


class Spool:
    """A temporary file without a name for the blocks of an attempt's answers. Thread-safe."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._size = 0
        self._closed = False
        self._lock = threading.Lock()

    def append(self, block: bytes) -> int:
        """Write a block, and return its offset. Has no effect after :meth:`close`."""
        with self._lock:
            offset = self._size
            if self._closed:
                return offset
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
            rest = memoryview(block)
            while rest:
                written = os.pwrite(self._file.fileno(), rest, self._size)
                self._size += written
                rest = rest[written:]
            return offset

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of one block. Raises ConnectionError if the spool is closed."""
        with self._lock:
            data = b"" if self._file is None or self._closed else os.pread(self._file.fileno(), size, offset)
        if not data:
            raise ConnectionError("the attempt has ended")
        return data

    def close(self) -> None:
        """Delete the file. Idempotent."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None


@attrs.frozen(kw_only=True)
class Failure:
    """Why a request has no answer, or an incomplete one."""

    status: int  #: HTTP status, if the answer has not begun
    kind: str  #: type of the error in the protocol, such as `invalid_request_error`
    message: str  #: explanation for the client


class Answer:
    """The answer to one request. One thread writes it; any number of clients read all of it, at their own speed.

    A slow client never blocks the writer, and memory does not grow with the length of the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, spool: Spool) -> None:
        self.status = 0  #: HTTP status; 0 before the answer begins
        self.headers: Mapping[str, str] = {}  #: headers to pass on
        self.failure: Failure | None = None  #: why the answer is incomplete; valid after its end
        self.ended = False  #: whether the answer is complete, or has failed
        self.size = 0  #: number of bytes so far
        self._offsets: list[int] = []
        self._tail = bytearray()
        self._last = b""
        self._loop = loop
        self._spool = spool
        self._lock = threading.Lock()
        self._waiting: list[asyncio.Future[None]] = []
        self._waking = False

    @property
    def at_line_end(self) -> bool:
        """Whether the last byte ends a line, so that an event can follow."""
        return self._last in (b"", b"\n")

    # --- the writing thread ---

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin the answer."""
        self.headers = headers
        self.status = status
        self._wake_soon()

    def add(self, data: bytes) -> None:
        """Add the next bytes. Raises ValueError if the answer is too long."""
        if not data:
            return
        if self.size + len(data) > LONGEST:
            raise ValueError(f"the answer is longer than {LONGEST} bytes")
        with self._lock:
            self._tail += data
            while len(self._tail) >= BLOCK:
                self._offsets.append(self._spool.append(bytes(self._tail[:BLOCK])))
                del self._tail[:BLOCK]
            self._last = data[-1:]
            self.size += len(data)
        self._wake_soon()

    def end(self, failure: Failure | None = None) -> None:
        """End the answer, which is complete or has failed. Only the first call has an effect."""
        with self._lock:
            if self.ended:
                return
            self.failure = failure
            self.ended = True
        self._wake_soon()

    def _wake_soon(self) -> None:
        if not self._waking:
            self._waking = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and all clients have left
                self._loop.call_soon_threadsafe(self._wake)

    # --- the event loop ---

    def _wake(self) -> None:
        self._waking = False
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _changed(self) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    async def begun(self) -> None:
        """Wait until the answer begins or ends."""
        while not self.status and not self.ended:
            await self._changed()

    async def finished(self) -> None:
        """Wait until the answer ends."""
        while not self.ended:
            await self._changed()

    async def read(self, position: int) -> bytes:
        """The next bytes from ``position``, as soon as there are any; empty at the end."""
        while position >= self.size and not self.ended:
            await self._changed()
        with self._lock:
            block, start = divmod(position, BLOCK)
            if block >= len(self._offsets):
                return bytes(self._tail[start:])
            offset = self._offsets[block]
        return self._spool.read(offset + start, BLOCK - start)
