"""Runs one blocking network exchange under one total deadline.

Socket timeouts restart with every byte, so a server that occasionally sends a byte never times out, whether in the
headers or in the body. Name lookup has no timeout at all. Therefore, the exchange runs in its own thread. At the
deadline, the caller stops waiting and shuts the socket down, which ends the thread.
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
"""Maximum seconds until an early end of a deadline is noticed."""


class ExchangeError(Exception):
    """A completion failed. ``kind`` is the state of the exchange.

    ``connect``: nothing was sent. ``cold``: nothing was sent, because the persistent connection was closed.
    ``timeout``, ``broken``: the server may have seen the request. ``stale``: the server may have seen the request, but
    a persistent connection failed before the response began. ``too_long``, ``odd``: the response is unusable.
    ``closed``: this client is closed.
    """

    def __init__(
        self, kind: Literal["connect", "cold", "timeout", "broken", "stale", "too_long", "odd", "closed"], message: str
    ) -> None:
        super().__init__(message)
        self.kind = kind


class Line:
    """The connection of one exchange, so that another thread can shut it down."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def watch(self, name: str, info: Mapping[str, Any]) -> None:
        """A callback for the ``trace`` extension of httpx: receives the socket as soon as it exists."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")

    @property
    def silent(self) -> bool:
        """Whether there is no unread data. If the other end has closed an idle connection, there is unread data."""
        if self._socket is None:
            return False
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):  # closed at this end
            return False

    def cut(self) -> None:
        """Shut down the connection, if there is one, which wakes up its reader."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown, which would invalidate state used by the reading thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def under(deadline: Deadline, line: Line, work: Callable[[], T]) -> T:
    """The result or exception of ``work``, or the deadline's exception once it has passed."""
    deadline.check()
    answers: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
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
    return value  # type: ignore[return-value]  # without an error there is a value
