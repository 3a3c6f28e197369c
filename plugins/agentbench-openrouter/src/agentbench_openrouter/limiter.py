"""Adaptive concurrency limit: fewer parallel exchanges when a server reports overload, gradually more afterwards,
and single probes while it seems to be down."""

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
"""Number of consecutive failed calls after which the server counts as down."""
PROBE_EVERY_SEC = 30.0
_LONGEST_PAUSE_SEC = 60.0
"""Longest pause for all calls because of one call's retry hint, which may only apply to that call."""
_CUT = 0.8
_GROWTH = 0.05
_LOOK_EVERY_SEC = 0.2
_FEWER = "Reduce --workers or increase timeout_sec."


class Limiter:
    """Additive increase, multiplicative decrease; first come, first served. Thread-safe.

    Overload responses to many parallel exchanges are one signal, so there is at most one decrease in ``COOLDOWN_SEC``.
    A *round* consists of as many first-attempt successes as the current limit. After each round, the limit grows.

    After several consecutive failed calls, the server counts as down. So that later calls do not all fail as well, they
    wait, at most until their time limit, while one exchange at a time probes the server.
    """

    def __init__(self, clock: Callable[[], float], limit: int = DEFAULT_LIMIT) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()
        self._most = limit
        self._limit = limit
        self._active = 0
        self._clean_calls = 0
        self._cut_at: float | None = None
        self._failures = 0
        self._not_before = -math.inf

    @property
    def limit(self) -> int:
        """The current maximum number of parallel exchanges."""
        return self._limit

    def start(self, workers: int) -> None:
        """Start with a slot for every worker."""
        with self._lock:
            self._most = self._limit = max(1, workers)
            self._admit()

    @contextlib.contextmanager
    def slot(self, call: LLMCall, total: Deadline) -> Iterator[None]:
        """Hold a slot for one exchange. Time spent waiting for it extends the attempt's deadline.

        Raises AttemptStop if the call's deadline passes first, and LLMError if ``total`` does.
        """
        self._enter(call, total)
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                self._admit()

    def overloaded(self) -> None:
        """Lower the limit because the server reports overload."""
        with self._lock:
            now = self._clock()
            self._clean_calls = 0
            if self._cut_at is None or now - self._cut_at >= COOLDOWN_SEC:
                self._cut_at = now
                self._limit = max(1, int(self._limit * _CUT))

    def pause(self, seconds: float) -> None:
        """Send nothing for ``seconds``, as the server requests, but not longer than ``_LONGEST_PAUSE_SEC``."""
        with self._lock:
            self._pause(min(seconds, _LONGEST_PAUSE_SEC))

    def unhealthy(self) -> None:
        """Start a new round because the server seems unhealthy. If it counts as down, delay the next probe."""
        with self._lock:
            self._clean_calls = 0
            if self._down:
                self._pause(PROBE_EVERY_SEC)

    def gave_up(self) -> None:
        """Count a call that failed because the server is unhealthy."""
        with self._lock:
            self._failures += 1
            if self._down:
                self._pause(PROBE_EVERY_SEC)

    def answered(self) -> None:
        """Record that the server is healthy."""
        with self._lock:
            if self._down:
                self._not_before = self._clock()
            self._failures = 0
            self._admit()

    def clean(self) -> None:
        """Count a call that succeeded at its first attempt."""
        with self._lock:
            self._clean_calls += 1
            if self._clean_calls >= self._limit:
                self._clean_calls = 0
                self._limit = min(self._most, self._limit + max(1, int(self._limit * _GROWTH)))
                self._admit()

    def _enter(self, call: LLMCall, total: Deadline) -> None:
        with self._lock:
            admitted = threading.Event()
            self._queue.append(admitted)
            self._admit()
        try:
            while not admitted.is_set():
                began = self._clock()
                admitted.wait(_LOOK_EVERY_SEC)
                call.add_wait(self._clock() - began)
                call.deadline.check()
                if total.expired:
                    raise self._no_slot(total)
                with self._lock:
                    self._admit()  # time has passed, and no other thread may notice
        except BaseException:
            with self._lock:
                if admitted.is_set():  # it just got its slot
                    self._active -= 1
                else:
                    self._queue.remove(admitted)
                self._admit()
            raise

    @property
    def _down(self) -> bool:
        return self._failures >= LOST_IN_A_ROW

    def _no_slot(self, total: Deadline) -> LLMError:
        within = f"no slot became free within {total.seconds:g} s"
        if self._down:
            return LLMError(f"{within}: the server is down ({self._failures} consecutive calls failed)", remedy=LATER)
        return LLMError(f"{within}: too many concurrent calls", remedy=_FEWER)

    def _pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._clock() + seconds)

    def _admit(self) -> None:
        most = 1 if self._down else self._limit
        while self._queue and self._active < most and self._clock() >= self._not_before:
            self._active += 1
            self._queue.popleft().set()
