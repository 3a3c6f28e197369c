"""Time that passes when it is told to, and timers."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """A call at some time, and again every ``period`` seconds if it has one."""

    def __init__(self, clock: Clock, time: float, function: Callable[[], object], period: float | None = None) -> None:
        self.time = time
        self.function = function
        self.period = period
        self._clock = clock

    def cancel(self) -> None:
        """Take the timer back."""
        self._clock.take_back(self)


class Clock:
    """Knows what time it is, and calls what is due."""

    def __init__(self, now: float = 0) -> None:
        self.now = now
        self._timers: list[Timer] = []

    @property
    def pending(self) -> int:
        """How many timers are set."""
        return len(self._timers)

    def call_at(self, time: float, function: Callable[[], object]) -> Timer:
        """Call a function when it is ``time``."""
        if time < self.now:
            raise ValueError(f"it is {self.now}, too late for a timer at {time}")
        return self._set(Timer(self, time, function))

    def call_later(self, delay: float, function: Callable[[], object]) -> Timer:
        """Call a function after so many seconds."""
        return self.call_at(self.now + delay, function)

    def call_every(self, period: float, function: Callable[[], object]) -> Timer:
        """Call a function after ``period`` seconds, and again and again."""
        if period <= 0:
            raise ValueError("time has to pass between calls")
        return self._set(Timer(self, self.now + period, function, period))

    def take_back(self, timer: Timer) -> None:
        """Forget a timer, if it is set."""
        if timer in self._timers:
            self._timers.remove(timer)

    def advance(self, seconds: float) -> None:
        """Let time pass, and call what becomes due, in order."""
        if seconds < 0:
            raise ValueError("time does not go back")
        end = self.now + seconds
        due = sorted((timer for timer in self._timers if timer.time <= end), key=lambda timer: timer.time)
        for timer in due:
            self.take_back(timer)
            self.now = timer.time
            timer.function()
            if timer.period is not None:
                timer.time += timer.period
                self._set(timer)
        self.now = end

    def _set(self, timer: Timer) -> Timer:
        self._timers.append(timer)
        return timer
