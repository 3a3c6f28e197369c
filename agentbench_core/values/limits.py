"""Deadlines and budgets: the only mutable counters of an attempt."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import attrs

from agentbench_core.errors import AttemptStop, BudgetExceeded, DeadlineExceeded, InputError

N = TypeVar("N", int, float)

LOOK_EVERY_SEC = 0.2
CRUMBS = 1e-9  # tolerance in US dollars, since sums of floats are not exact


@attrs.frozen(kw_only=True)
class Reservation:
    """The maximum usage of a model call."""

    tokens: int  #: input and output tokens
    cost_usd: float  #: US dollars

    def plus(self, other: Reservation) -> Reservation:
        """The sum."""
        return Reservation(tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd)


class Deadline:
    """A point in time, passed to everything that blocks.

    Uses the monotonic clock, so changes to the wall clock have no effect. A deadline created with :meth:`within` also
    ends when its parent ends.
    """

    def __init__(
        self, seconds: float, *, parent: Deadline | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds  #: the initial number of seconds
        self._clock = clock
        self._end = clock() + seconds
        self._parent = parent
        self._ended_by: AttemptStop | None = None

    def within(self, seconds: float) -> Deadline:
        """A child deadline, at most ``seconds`` away and never later than this one."""
        return Deadline(seconds, parent=self, clock=self._clock)

    def remaining(self) -> float:
        """Number of seconds left; 0.0 if the deadline has passed."""
        if self._ended_by is not None:
            return 0.0
        left = max(0.0, self._end - self._clock())
        return left if self._parent is None else min(left, self._parent.remaining())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() <= 0.0

    def check(self) -> None:
        """Raise DeadlineExceeded (or the reason given to :meth:`end`) if the deadline has passed."""
        if self.expired:
            raise self._reason()

    def end(self, reason: AttemptStop) -> None:
        """End the deadline now; every later check raises ``reason``. If called again, the first reason is kept."""
        if self._ended_by is None:
            self._ended_by = reason

    def extend(self, seconds: float) -> None:
        """Extend this deadline and its parents by time that must not count, such as waiting for a rate limit."""
        self._end += seconds
        if self._parent is not None:
            self._parent.extend(seconds)

    def shown(self) -> Deadline:
        """A read-only view: agents and tools cannot end or extend it."""
        return _Shown(math.inf, parent=self, clock=self._clock)

    def _reason(self) -> AttemptStop:
        if self._ended_by is not None:
            return self._ended_by
        if self._parent is not None and self._parent.expired:
            return self._parent._reason()
        return DeadlineExceeded("the deadline has passed")


class _Shown(Deadline):
    def within(self, seconds: float) -> Deadline:
        return _Shown(seconds, parent=self, clock=self._clock)

    def end(self, reason: AttemptStop) -> None:
        raise InputError("this deadline can be ended only by the harness")

    def extend(self, seconds: float) -> None:
        raise InputError("this deadline can be extended only by the harness")


class Budget:
    """An agent's limits on steps (tool calls), tokens, and US dollars. ``None`` means no limit. Thread-safe.

    The maximum usage of a model call is reserved before the call is sent, so limits are never exceeded. Usage of a
    sub-agent's share also counts against its parent's budget.
    """

    def __init__(
        self,
        *,
        max_steps: int | None = None,
        max_tokens: int | None = None,
        max_cost_usd: float | None = None,
        parent: Budget | None = None,
    ) -> None:
        self._max_steps = max_steps
        self.max_tokens = max_tokens  #: own limit of tokens
        self.max_cost_usd = max_cost_usd  #: own limit of US dollars
        self.parent = parent  #: the budget that this one is a share of, if any
        self.steps = 0  #: tool calls so far
        self.tokens = 0  #: input and output tokens so far
        self.cost_usd = 0.0  #: US dollars so far
        self._held = Reservation(tokens=0, cost_usd=0.0)
        self._over: BudgetExceeded | None = None
        self._changed: threading.Condition = threading.Condition() if parent is None else parent._changed

    def share(
        self, *, max_steps: int | None = None, max_tokens: int | None = None, max_cost_usd: float | None = None
    ) -> Budget:
        """A share of this budget, for a sub-agent."""
        return Budget(max_steps=max_steps, max_tokens=max_tokens, max_cost_usd=max_cost_usd, parent=self)

    @property
    def limited(self) -> bool:
        """Whether tokens or money are limited, so that the maximum usage of a call must be known."""
        own = self.max_tokens is not None or self.max_cost_usd is not None
        return own or (self.parent is not None and self.parent.limited)

    @property
    def steps_left(self) -> int | None:
        """Number of remaining tool calls; ``None`` if unlimited."""
        own = None if self._max_steps is None else max(0, self._max_steps - self.steps)
        return _least(own, self.parent.steps_left if self.parent else None)

    @property
    def tokens_left(self) -> int | None:
        """Number of remaining tokens; ``None`` if unlimited."""
        own = None if self.max_tokens is None else max(0, self.max_tokens - self.tokens)
        return _least(own, self.parent.tokens_left if self.parent else None)

    @property
    def cost_left_usd(self) -> float | None:
        """Remaining US dollars; ``None`` if unlimited."""
        own = None if self.max_cost_usd is None else max(0.0, self.max_cost_usd - self.cost_usd)
        return _least(own, self.parent.cost_left_usd if self.parent else None)

    @property
    def left(self) -> str:
        """The remaining steps and tokens as text for a model; empty if nothing is limited."""
        amounts = {"steps": self.steps_left, "tokens": self.tokens_left}
        return ", ".join(f"{amount} {name}" for name, amount in amounts.items() if amount is not None)

    def check(self) -> None:
        """Raise BudgetExceeded if steps or tokens are used up, or usage has been refused, here or in a parent."""
        self.check_spend()
        for budget in self.line():
            budget._check_steps()

    def check_spend(self) -> None:
        """Like :meth:`check`, except for steps: a model call is allowed even if no steps are left."""
        for budget in self.line():
            if budget._over:
                raise budget._over
            if budget.max_tokens is not None and budget.tokens >= budget.max_tokens:
                raise BudgetExceeded(f"all {budget.max_tokens} tokens are used up", budget=budget, what="tokens")

    def end(self, reason: BudgetExceeded) -> None:
        """Refuse all further steps and reservations with ``reason``. If called again, the first reason is kept."""
        self._over = self._over or reason

    def spend_step(self) -> int:
        """Count one tool call, and return its number in the attempt, from 1. Raises BudgetExceeded if none is left."""
        with self._changed:
            line = self.line()
            for budget in line:
                if budget._over:
                    raise budget._over
                budget._check_steps()
            for budget in line:
                budget.steps += 1
            return line[-1].steps

    def reserve(self, most: Reservation, deadline: Deadline | None = None) -> None:
        """Reserve the maximum usage of a call. Waits, until the deadline, while only other reservations prevent it.

        Raises BudgetExceeded if that much is not available; from then on, every step and every reservation raises it.
        """
        with self._changed:
            line = self.line()
            while not all(budget._has_room(most) for budget in line):
                if deadline is not None:
                    deadline.check()
                self._changed.wait(LOOK_EVERY_SEC)
            for budget in line:
                budget._held = budget._held.plus(most)

    def settle(self, reserved: Reservation, *, tokens: int, cost_usd: float) -> None:
        """Replace the reservation of a call with its actual usage."""
        with self._changed:
            for budget in self.line():
                budget._held = budget._held.plus(Reservation(tokens=-reserved.tokens, cost_usd=-reserved.cost_usd))
                budget.tokens += tokens
                budget.cost_usd += cost_usd
            self._changed.notify_all()

    def observe(self, *, tokens: int, cost_usd: float) -> None:
        """Set the usage of this budget that another process has counted, unless more is known."""
        with self._changed:
            self.tokens, self.cost_usd = max(self.tokens, tokens), max(self.cost_usd, cost_usd)
            self._changed.notify_all()

    def line(self) -> list[Budget]:
        """This budget and its parents; the last one is the attempt's budget."""
        line = [self]
        while line[-1].parent is not None:
            line.append(line[-1].parent)
        return line

    def _check_steps(self) -> None:
        if self._max_steps is not None and self.steps >= self._max_steps:
            raise BudgetExceeded(f"all {self._max_steps} steps are used up", budget=self, what="steps")

    def _has_room(self, most: Reservation) -> bool:
        """Whether a call fits alongside those in progress. Raises BudgetExceeded if it would not fit even alone."""
        tokens, cost = self.tokens + most.tokens, self.cost_usd + most.cost_usd
        if self.max_tokens is not None and tokens > self.max_tokens:
            message = f"{self.tokens} of {self.max_tokens} tokens are used, and the next call may take {most.tokens}"
            self._over = self._over or BudgetExceeded(message, budget=self, what="tokens")
        if self.max_cost_usd is not None and cost > self.max_cost_usd + CRUMBS:
            spent = f"{self.cost_usd:.6f} of {self.max_cost_usd:g} USD is spent"
            message = f"{spent}, and the next call may cost {most.cost_usd:.6f}"
            self._over = self._over or BudgetExceeded(message, budget=self, what="money")
        if self._over:
            raise self._over
        enough = self.max_tokens is None or tokens + self._held.tokens <= self.max_tokens
        return enough and (self.max_cost_usd is None or cost + self._held.cost_usd <= self.max_cost_usd + CRUMBS)


def _least(*amounts: N | None) -> N | None:
    return min((amount for amount in amounts if amount is not None), default=None)
