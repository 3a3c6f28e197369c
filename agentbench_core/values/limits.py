"""Deadlines and budgets: the only mutable counters that an attempt has."""

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
CRUMBS = 1e-9  # US dollars: sums of floats are not exact


@attrs.frozen(kw_only=True)
class Reservation:
    """The most that a call of a model may use."""

    tokens: int
    cost_usd: float

    def plus(self, other: Reservation) -> Reservation:
        """Both together."""
        return Reservation(tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd)


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
        return DeadlineExceeded("the deadline has passed")


class _Shown(Deadline):
    def within(self, seconds: float) -> Deadline:
        return _Shown(seconds, parent=self, clock=self._clock)

    def end(self, reason: AttemptStop) -> None:
        raise InputError("this deadline can only be ended by the harness")

    def extend(self, seconds: float) -> None:
        raise InputError("this deadline can only be extended by the harness")


class Budget:
    """What an agent may use: steps (tool calls), tokens, and US dollars. ``None`` means no limit. Thread-safe.

    What a call of a model may cost at most is held back before it is sent, so that no limit is ever overshot. A
    sub-agent's share is carved from its parent's: what it uses counts in both.
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
        self._max_tokens = max_tokens
        self._max_cost_usd = max_cost_usd
        self.parent = parent
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
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
        """Whether tokens or money have a limit, so that the worst case of a call must be known."""
        own = self._max_tokens is not None or self._max_cost_usd is not None
        return own or (self.parent is not None and self.parent.limited)

    @property
    def steps_left(self) -> int | None:
        """Tool calls that may still be made."""
        own = None if self._max_steps is None else max(0, self._max_steps - self.steps)
        return _least(own, self.parent.steps_left if self.parent else None)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be used."""
        own = None if self._max_tokens is None else max(0, self._max_tokens - self.tokens)
        return _least(own, self.parent.tokens_left if self.parent else None)

    @property
    def cost_left_usd(self) -> float | None:
        """US dollars that may still be spent."""
        own = None if self._max_cost_usd is None else max(0.0, self._max_cost_usd - self.cost_usd)
        return _least(own, self.parent.cost_left_usd if self.parent else None)

    @property
    def left(self) -> str:
        """For a model: what is left of steps and tokens, in words; empty when nothing is limited."""
        amounts = {"steps": self.steps_left, "tokens": self.tokens_left}
        return ", ".join(f"{amount} {name}" for name, amount in amounts.items() if amount is not None)

    def check(self) -> None:
        """Raise BudgetExceeded when steps, tokens or money are used up, here or in a parent."""
        self.check_spend()
        for budget in self._line():
            budget._check_steps()

    def check_spend(self) -> None:
        """Raise BudgetExceeded when tokens or money are used up. Who has no step left may still say something."""
        for budget in self._line():
            if budget._over:
                raise budget._over
            if budget._max_tokens is not None and budget.tokens >= budget._max_tokens:
                raise BudgetExceeded(f"all {budget._max_tokens} tokens are used up", budget=budget, what="tokens")

    def end(self, reason: BudgetExceeded) -> None:
        """Nothing more may be used; the first reason stays."""
        self._over = self._over or reason

    def spend_step(self) -> int:
        """Count one tool call and return its number in the attempt, from 1. Raises BudgetExceeded when none is left."""
        with self._changed:
            line = self._line()
            for budget in line:
                if budget._over:
                    raise budget._over
                budget._check_steps()
            for budget in line:
                budget.steps += 1
            return line[-1].steps

    def reserve(self, most: Reservation, deadline: Deadline | None = None) -> None:
        """Hold back what a call may use at most; waits while other calls may still give some of theirs back.

        Raises BudgetExceeded when there is not so much, and from then on for everything, however little it asks for.
        """
        with self._changed:
            line = self._line()
            while not all(budget._has_room(most) for budget in line):
                if deadline is not None:
                    deadline.check()
                self._changed.wait(LOOK_EVERY_SEC)
            for budget in line:
                budget._held = budget._held.plus(most)

    def settle(self, held: Reservation, *, tokens: int, cost_usd: float) -> None:
        """Count what a call has used, in place of what was held back for it."""
        with self._changed:
            for budget in self._line():
                budget._held = budget._held.plus(Reservation(tokens=-held.tokens, cost_usd=-held.cost_usd))
                budget.tokens += tokens
                budget.cost_usd += cost_usd
            self._changed.notify_all()

    def _line(self) -> list[Budget]:
        """This budget and those that it is carved from; the attempt's own is the last."""
        line = [self]
        while line[-1].parent is not None:
            line.append(line[-1].parent)
        return line

    def _check_steps(self) -> None:
        if self._max_steps is not None and self.steps >= self._max_steps:
            raise BudgetExceeded(f"all {self._max_steps} steps are used up", budget=self, what="steps")

    def _has_room(self, most: Reservation) -> bool:
        """Whether a call fits beside those under way. Raises BudgetExceeded when it would not fit alone either."""
        tokens, cost = self.tokens + most.tokens, self.cost_usd + most.cost_usd
        if self._max_tokens is not None and tokens > self._max_tokens:
            said = f"{self.tokens} of {self._max_tokens} tokens are used, and the next call may take {most.tokens}"
            self._over = self._over or BudgetExceeded(said, budget=self, what="tokens")
        if self._max_cost_usd is not None and cost > self._max_cost_usd + CRUMBS:
            spent = f"{self.cost_usd:.6f} of {self._max_cost_usd:g} USD are spent"
            said = f"{spent}, and the next call may cost {most.cost_usd:.6f}"
            self._over = self._over or BudgetExceeded(said, budget=self, what="money")
        if self._over:
            raise self._over
        enough = self._max_tokens is None or tokens + self._held.tokens <= self._max_tokens
        return enough and (self._max_cost_usd is None or cost + self._held.cost_usd <= self._max_cost_usd + CRUMBS)


def _least(*amounts: N | None) -> N | None:
    return min((amount for amount in amounts if amount is not None), default=None)
