"""When exchanges may be sent, and how many at once: fewer when a server says that it is too much, and more again later;
one now and then while it seems to be down."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator

from agentbench_core import Deadline, LLMCall, LLMError
from agentbench_openrouter.failures import LATER

DEFAULT_LIMIT = 8
COOLDOWN_SEC = 15.0
LOST_IN_A_ROW = 3
"""Calls that have given up on a server, before the others wait until it is well."""
PROBE_EVERY_SEC = 30.0
_LONGEST_PAUSE_SEC = 60.0
"""Of all calls because one was told to wait: what it was told may be true for that one only."""
_CUT = 0.8
_GROWTH = 0.05
_LOOK_EVERY_SEC = 0.2
_FEWER = "Use fewer --workers, or a longer timeout_sec."


class Limiter:
    """Additive increase, multiplicative decrease; whoever comes first goes first. Thread-safe.

    One answer to many exchanges at once is one reason to slow down, so that there is at most one cut in
    ``COOLDOWN_SEC``. A *round* is as many clean successes as the limit has places; after each the limit grows a little.

    When calls have given up one after the other, an outage must not take all that follow with it: they wait as long as
    they have time, and one exchange at a time looks whether the server is back.
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
        self._lost = 0
        self._not_before = -math.inf

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

    def pause(self, seconds: float) -> None:
        """The server wishes that nothing is sent for so long."""
        with self._lock:
            self._pause(min(seconds, _LONGEST_PAUSE_SEC))

    def unwell(self) -> None:
        """The server has other troubles: no growth now."""
        with self._lock:
            self._clean = 0
            if self._down:
                self._pause(PROBE_EVERY_SEC)

    def gave_up(self) -> None:
        """A call was lost because the server is not well."""
        with self._lock:
            self._lost += 1
            if self._down:
                self._pause(PROBE_EVERY_SEC)

    def answered(self) -> None:
        """The server is there."""
        with self._lock:
            if self._down:
                self._not_before = self._clock()
            self._lost = 0
            self._let_in()

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
            turn = threading.Event()
            self._queue.append(turn)
            self._let_in()
        try:
            while not turn.is_set():
                began = self._clock()
                turn.wait(_LOOK_EVERY_SEC)
                call.add_wait(self._clock() - began)
                call.deadline.check()
                if total.expired:
                    raise self._no_turn(total)
                with self._lock:
                    self._let_in()  # time has passed, and nobody else may be there to notice
        except BaseException:
            with self._lock:
                if turn.is_set():  # it was let in just now
                    self._under_way -= 1
                else:
                    self._queue.remove(turn)
                self._let_in()
            raise

    @property
    def _down(self) -> bool:
        return self._lost >= LOST_IN_A_ROW

    def _no_turn(self, total: Deadline) -> LLMError:
        within = f"no turn within {total.seconds:g} s"
        if self._down:
            return LLMError(f"{within}: the server is down, {self._lost} calls in a row have given up", remedy=LATER)
        return LLMError(f"{within}: too many calls at once", remedy=_FEWER)

    def _pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._clock() + seconds)

    def _let_in(self) -> None:
        most = 1 if self._down else self._limit
        while self._queue and self._under_way < most and self._clock() >= self._not_before:
            self._under_way += 1
            self._queue.popleft().set()
