"""Run one blocking network exchange under one total deadline.

Timeouts of sockets count from byte to byte, so a server that drips one now and then is never timed out, neither
in the body nor in the headers; looking up a name has no timeout at all. So the exchange runs in a thread of its
own, and whoever waits for it stops waiting at the deadline and shuts the socket down, which ends the thread.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from agentbench_core import Deadline

T = TypeVar("T")

_LOOK_EVERY_SEC = 0.1
"""How soon a deadline that somebody ends early is noticed."""


class ExchangeError(Exception):
    """A completion did not come. ``kind`` says how far things went.

    ``connect``: nothing was sent. ``cold``: the same, on a connection that had been kept open and is gone. ``timeout``,
    ``broken``: the server may have seen the request. ``stale``: the same,
    on a connection that had been kept open, before a byte of the answer. ``too_long``, ``odd``: what came is no use.
    ``closed``: this client is closed.
    """

    def __init__(
        self, kind: Literal["connect", "cold", "timeout", "broken", "stale", "too_long", "odd", "closed"], message: str
    ) -> None:
        super().__init__(message)
        self.kind = kind


class Line:
    """The connection of one exchange, so that another thread can cut it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def watch(self, name: str, info: Mapping[str, Any]) -> None:
        """A callback for the ``trace`` extension of httpx: learns the socket as soon as there is one."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")

    @property
    def silent(self) -> bool:
        """Whether nothing has come on it that nobody has read: an idle connection that its other end closed is not."""
        if self._socket is None:
            return False
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):  # it was closed at this end
            return False

    def cut(self) -> None:
        """End whatever waits for this connection. Harmless when there is none."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown, which takes its state away under the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def under(deadline: Deadline, line: Line, work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, or what the deadline raises once it is over."""
    deadline.check()
    answers: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            answers.put((None, error))

    threading.Thread(target=run, name="agentbench-openrouter", daemon=True).start()
    try:
        while True:
            deadline.check()
            with contextlib.suppress(queue.Empty):
                value, error = answers.get(timeout=min(_LOOK_EVERY_SEC, max(deadline.remaining(), 0.001)))
                break
    finally:
        line.cut()
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # with no error there is a value
