"""One thread that ends exchanges whose time is over.

Timeouts of sockets count from byte to byte, so something else must look at the clock. A thread for every exchange (as
in :mod:`.exchange`) is too much where hundreds are under way; here one looks at all of them, a few times a second, and
sleeps while there are none.
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
"""How long somebody who was cut has to end by himself."""


class Watched:
    """One exchange: until when it may go on, and the deadline that may end it sooner."""

    def __init__(self, line: Line, seconds: float, deadline: Deadline) -> None:
        self._line = line
        self._end = time.monotonic() + seconds
        self._deadline = deadline
        self._news = threading.Event()
        self.cut = False
        """Whether it was ended from here."""

    @property
    def over(self) -> bool:
        """Whether its time is over."""
        return self.cut or time.monotonic() >= self._end or self._deadline.expired

    def end(self) -> None:
        """End it, and wake up whoever waits for it."""
        self.cut = True
        self._line.cut()
        self._news.set()

    def apart(self, work: Callable[[], T], abandoned: Callable[[], None]) -> T:
        """Do ``work`` in a thread of its own: nothing cuts the look-up of a name, or a connection that is being made.

        Raises AbandonedError when time is over and the work still goes on; ``abandoned`` is called when that ends.
        """
        task = _Apart(work, abandoned, self._news)
        threading.Thread(target=task.run, name="agentbench-openrouter-connect", daemon=True).start()
        self._news.wait()
        return task.result()


class AbandonedError(Exception):
    """Work goes on in a thread of its own, and nobody waits for it any more."""


class _Apart(Generic[T]):
    """Work in a thread of its own, and whoever waits for it: they agree on who comes last."""

    def __init__(self, work: Callable[[], T], abandoned: Callable[[], None], news: threading.Event) -> None:
        self._work = work
        self._abandoned = abandoned
        self._news = news
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._left = False
        self._got: list[T] = []
        self._failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._got.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self._failed = error
        with self._lock:
            self._done.set()
            left = self._left
        self._news.set()
        if left:
            self._abandoned()

    def result(self) -> T:
        self._done.wait(_LAST_WORDS_SEC)
        with self._lock:
            self._left = not self._done.is_set()
        if self._left:
            raise AbandonedError("the exchange goes on without us")
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        return self._got[0]


class Watchdog:
    """Looks after exchanges. Its thread begins with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: set[Watched] = set()
        self._thread: threading.Thread | None = None
        self.closed = False

    @contextlib.contextmanager
    def watching(self, line: Line, seconds: float, deadline: Deadline) -> Iterator[Watched]:
        """Cut the line when ``seconds`` or the deadline are over, for as long as the block runs."""
        watched = Watched(line, seconds, deadline)
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
            with self._changed:  # from here on the line is somebody else's
                self._watched.discard(watched)

    def close(self) -> None:
        """End everything that is under way, and the thread. Idempotent."""
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
                    if watched.over:  # again and again: a connection may come about after it was cut
                        watched.end()
                self._changed.wait(_LOOK_EVERY_SEC)
