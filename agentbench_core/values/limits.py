"""Deadlines and budgets: the only mutable counters that an attempt has."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from agentbench_core.errors import AttemptStop, BudgetExceeded, DeadlineExceeded, InputError


class Deadline:
    """A point in time that everything that blocks is handed.

    Times are seconds of a monotonic clock, so that wall-clock jumps change nothing. A deadline made with
    :meth:`within` also ends when its parent ends.
    """

    def __init__(
        self, seconds: float, *, parent: Deadline | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self._parent = parent
        self._ended_by: AttemptStop | None = None

    def within(self, seconds: float) -> Deadline:
        """A deadline of its own, at most ``seconds`` away and never later than this one."""
        return Deadline(seconds, parent=self, clock=self._clock)

    def remaining(self) -> float:
        """Seconds left; 0.0 when it is over."""
        if self._ended_by is not None:
            return 0.0
        left = max(0.0, self._end - self._clock())
        return left if self._parent is None else min(left, self._parent.remaining())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining() <= 0.0

    def check(self) -> None:
        """Raise DeadlineExceeded (or what :meth:`end` was given) when it is over."""
        if self.expired:
            raise self._reason()

    def end(self, reason: AttemptStop) -> None:
        """End it now; everyone who asks from here on gets ``reason``. The first reason stays."""
        if self._ended_by is None:
            self._ended_by = reason

    def extend(self, seconds: float) -> None:
        """Give back time that must not count, such as waiting for a provider's rate limit: here and in its parents."""
        self._end += seconds
        if self._parent is not None:
            self._parent.extend(seconds)

    def shown(self) -> Deadline:
        """The same deadline for those who may only look: agents and tools cannot end or extend it."""
        return _Shown(math.inf, parent=self, clock=self._clock)

    def _reason(self) -> AttemptStop:
        if self._ended_by is not None:
            return self._ended_by
        if self._parent is not None and self._parent.expired:
            return self._parent._reason()
        return DeadlineExceeded("the time for this is over")


class _Shown(Deadline):
    def within(self, seconds: float) -> Deadline:
        return _Shown(seconds, parent=self, clock=self._clock)

    def end(self, reason: AttemptStop) -> None:
        raise InputError("this deadline is not yours to end")

    def extend(self, seconds: float) -> None:
        raise InputError("this deadline is not yours to extend")


class Budget:
    """What an attempt may use: steps (tool calls), tokens, and US dollars. ``None`` means no limit. Thread-safe."""

    def __init__(
        self, *, max_steps: int | None = None, max_tokens: int | None = None, max_cost_usd: float | None = None
    ) -> None:
        self.max_steps = max_steps
        self.max_tokens = max_tokens
        self.max_cost_usd = max_cost_usd
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self._lock = threading.Lock()

    @property
    def steps_left(self) -> int | None:
        """Tool calls that may still be made."""
        return None if self.max_steps is None else max(0, self.max_steps - self.steps)

    def spend_step(self) -> int:
        """Count one tool call and return its number, from 1. Raises BudgetExceeded when none is left."""
        with self._lock:
            if self.max_steps is not None and self.steps >= self.max_steps:
                raise BudgetExceeded(f"all {self.max_steps} steps are used up")
            self.steps += 1
            return self.steps

    def check_spend(self) -> None:
        """Raise BudgetExceeded when tokens or money are used up."""
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            raise BudgetExceeded(f"all {self.max_tokens} tokens are used up")
        if self.max_cost_usd is not None and self.cost_usd >= self.max_cost_usd:
            raise BudgetExceeded(f"the budget of {self.max_cost_usd} USD is used up")

    def spend(self, *, tokens: int, cost_usd: float) -> None:
        """Count what one model call used."""
        with self._lock:
            self.tokens += tokens
            self.cost_usd += cost_usd
