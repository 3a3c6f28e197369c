"""One thread that ends exchanges at their deadlines.

Socket timeouts restart with every byte, so the clock must be checked separately. A thread per exchange (as in
:mod:`.exchange`) is too much for hundreds of exchanges; here one thread checks all of them, a few times a second, and
sleeps if there are none.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from agentbench_core import Deadline
from agentbench_openrouter.exchange import Line

T = TypeVar("T")

_LOOK_EVERY_SEC = 0.2
_LAST_WORDS_SEC = 0.2
"""Seconds to wait for an exchange to end after it was shut down."""


class Watched:
    """One exchange with its time limit, and the deadline that may end it sooner."""

    def __init__(self, line: Line, seconds: float, deadline: Deadline, most: float | None = None) -> None:
        now = time.monotonic()
        self._line = line
        self._end = now + seconds
        self._last = now + (seconds if most is None else most)
        self._deadline = deadline
        self._news = threading.Event()
        self.cut = False
        """Whether the watchdog ended the exchange."""

    @property
    def over(self) -> bool:
        """Whether the exchange was ended, or its time limit or deadline has passed."""
        return self.cut or time.monotonic() >= self._end or self._deadline.expired

    def renew(self, seconds: float) -> None:
        """Limit the time from now on, because the server has sent something; not beyond the total limit."""
        self._end = min(self._last, time.monotonic() + seconds)

    def end(self) -> None:
        """End the exchange, and wake up its thread."""
        self.cut = True
        self._line.cut()
        self._news.set()

    def apart(self, work: Callable[[], T], abandoned: Callable[[], None]) -> T:
        """Run ``work`` in its own thread, because name lookup and connecting cannot be interrupted.

        Raises AbandonedError if the exchange is ended while ``work`` is running. In that case, ``abandoned`` is called
        when ``work`` returns.
        """
        task = _AbandonableWork(work, abandoned, self._news)
        threading.Thread(target=task.run, name="agentbench-openrouter-connect", daemon=True).start()
        self._news.wait()
        return task.result()


class AbandonedError(Exception):
    """Work continues in its own thread after the caller has given up."""


class _AbandonableWork(Generic[T]):
    """Work in its own thread. If its caller stops waiting, the thread calls ``abandoned`` at the end."""

    def __init__(self, work: Callable[[], T], abandoned: Callable[[], None], news: threading.Event) -> None:
        self._work = work
        self._abandoned = abandoned
        self._news = news
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._is_abandoned = False
        self._got: list[T] = []
        self._failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._got.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            self._failed = error
        with self._lock:
            self._done.set()
            is_abandoned = self._is_abandoned
        self._news.set()
        if is_abandoned:
            self._abandoned()

    def result(self) -> T:
        self._done.wait(_LAST_WORDS_SEC)
        with self._lock:
            self._is_abandoned = not self._done.is_set()
        if self._is_abandoned:
            raise AbandonedError("the exchange was abandoned")
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        return self._got[0]


class Watchdog:
    """Watches exchanges. Its thread is started for the first exchange. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: set[Watched] = set()
        self._thread: threading.Thread | None = None
        self.closed = False

    @contextlib.contextmanager
    def watching(
        self, line: Line, seconds: float, deadline: Deadline, *, most: float | None = None
    ) -> Iterator[Watched]:
        """Shut the line down if ``seconds`` elapse or the deadline passes within the block.

        ``most`` limits renewals of the time (:meth:`Watched.renew`).
        """
        watched = Watched(line, seconds, deadline, most)
        with self._changed:
            if self._thread is None and not self.closed:
                self._thread = threading.Thread(target=self._run, name="agentbench-openrouter-watch", daemon=True)
                self._thread.start()
            if not self._watched:
                self._changed.notify()
            self._watched.add(watched)
            if self.closed:
                watched.end()
        try:
            yield watched
        finally:
            with self._changed:  # from here on another exchange may use the line
                self._watched.discard(watched)

    def close(self) -> None:
        """End all exchanges and the thread. Idempotent."""
        with self._changed:
            self.closed = True
            for watched in self._watched:
                watched.end()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched and not self.closed:
                    self._changed.wait()
                if self.closed:
                    return
                for watched in self._watched:
                    if watched.over:  # repeatedly: a connection may be established after it was shut down
                        watched.end()
                self._changed.wait(_LOOK_EVERY_SEC)
