"""How many exchanges may be under way at once: fewer when a server says that it is too much, and more again later."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

from agentbench_core import Deadline, LLMCall, LLMError

DEFAULT_LIMIT = 8
COOLDOWN_SEC = 15.0
_CUT = 0.8
_GROWTH = 0.05
_LOOK_EVERY_SEC = 0.2
_FEWER = "Use fewer --workers, or a longer timeout_sec."


class Limiter:
    """Additive increase, multiplicative decrease; whoever comes first goes first. Thread-safe.

    One answer to many exchanges at once is one reason to slow down, so that there is at most one cut in
    ``COOLDOWN_SEC``. A *round* is as many clean successes as the limit has places; after each the limit grows a little.
    """

    def __init__(self, clock: Callable[[], float], limit: int = DEFAULT_LIMIT) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._most = limit
        self._limit = limit
        self._under_way = 0
        self._clean = 0
        self._cut_at: float | None = None

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return self._limit

    def start(self, workers: int) -> None:
        """Begin with a place for every worker."""
        with self._lock:
            self._most = self._limit = max(1, workers)
            self._let_in()

    @contextlib.contextmanager
    def place(self, call: LLMCall, total: Deadline) -> Iterator[None]:
        """A place for one exchange. The time that it takes to get one is given back to the attempt.

        Raises AttemptStop when the call's deadline ends before that, and LLMError when ``total`` does.
        """
        self._enter(call, total)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._let_in()

    def too_much(self) -> None:
        """The server says that it is too much."""
        with self._lock:
            now = self._clock()
            self._clean = 0
            if self._cut_at is None or now - self._cut_at >= COOLDOWN_SEC:
                self._cut_at = now
                self._limit = max(1, int(self._limit * _CUT))

    def unwell(self) -> None:
        """The server has other troubles: no growth now."""
        with self._lock:
            self._clean = 0

    def clean(self) -> None:
        """An exchange that was answered at once."""
        with self._lock:
            self._clean += 1
            if self._clean >= self._limit:
                self._clean = 0
                self._limit = min(self._most, self._limit + max(1, int(self._limit * _GROWTH)))
                self._let_in()

    def _enter(self, call: LLMCall, total: Deadline) -> None:
        with self._lock:
            if self._under_way < self._limit:  # then nobody waits
                self._under_way += 1
                return
            turn = threading.Event()
            self._queue.append(turn)
        try:
            while not turn.is_set():
                began = self._clock()
                turn.wait(_LOOK_EVERY_SEC)
                call.waiting(self._clock() - began)
                call.deadline.check()
                if total.expired:
                    raise LLMError(f"no turn within {total.seconds:g} s: too many calls at once", remedy=_FEWER)
        except BaseException:
            with self._lock:
                if turn.is_set():  # it was let in just now
                    self._under_way -= 1
                else:
                    self._queue.remove(turn)
                self._let_in()
            raise

    def _let_in(self) -> None:
        while self._queue and self._under_way < self._limit:
            self._under_way += 1
            self._queue.popleft().set()
