"""Time that passes only when a test says so."""

from __future__ import annotations

import threading

from agentbench_core import Deadline


class FakeClock:
    """A clock for deadlines that pass without anybody waiting. Thread-safe::

        clock = FakeClock()
        deadline = clock.deadline(60.0)
        clock.advance(59.0)
        assert deadline.remaining() == 1.0

    ``Deadline(..., clock=clock)`` and ``make_context(..., clock=clock)`` take it. Commands in a sandbox take real time,
    which does not move it; but one that is running ends when the clock is put past its deadline.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time, in seconds since it was made."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for time that would run backwards: no monotonic clock does that."""
        if not seconds >= 0:
            raise ValueError(f"time cannot pass by {seconds} seconds")
        with self._lock:
            self._now += seconds

    def deadline(self, seconds: float) -> Deadline:
        """A deadline so many seconds from now, by this clock."""
        return Deadline(seconds, clock=self)
