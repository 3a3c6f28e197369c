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


@attrs.frozen(kw_only=True)
class Held:
    """The most that a call of a model may use."""

    tokens: int
    cost_usd: float

    def plus(self, other: Held) -> Held:
        """Both together."""
        return Held(tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd)


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
        self.max_steps = max_steps
        self.max_tokens = max_tokens
        self.max_cost_usd = max_cost_usd
        self.parent = parent
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self._held = Held(tokens=0, cost_usd=0.0)
        self._over = ""
        self._lock: threading.RLock = threading.RLock() if parent is None else parent._lock

    def carve(
        self, *, max_steps: int | None = None, max_tokens: int | None = None, max_cost_usd: float | None = None
    ) -> Budget:
        """A share of this budget, for a sub-agent."""
        return Budget(max_steps=max_steps, max_tokens=max_tokens, max_cost_usd=max_cost_usd, parent=self)

    @property
    def limited(self) -> bool:
        """Whether tokens or money have a limit, so that the worst case of a call must be known."""
        own = self.max_tokens is not None or self.max_cost_usd is not None
        return own or (self.parent is not None and self.parent.limited)

    @property
    def steps_left(self) -> int | None:
        """Tool calls that may still be made."""
        own = None if self.max_steps is None else max(0, self.max_steps - self.steps)
        return _least(own, self.parent.steps_left if self.parent else None)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be used."""
        own = None if self.max_tokens is None else max(0, self.max_tokens - self.tokens)
        return _least(own, self.parent.tokens_left if self.parent else None)

    @property
    def cost_left_usd(self) -> float | None:
        """US dollars that may still be spent."""
        own = None if self.max_cost_usd is None else max(0.0, self.max_cost_usd - self.cost_usd)
        return _least(own, self.parent.cost_left_usd if self.parent else None)

    @property
    def left(self) -> str:
        """For a model: what is left of steps and tokens, in words; empty when nothing is limited."""
        amounts = {"steps": self.steps_left, "tokens": self.tokens_left}
        return ", ".join(f"{amount} {name}" for name, amount in amounts.items() if amount is not None)

    def check(self) -> None:
        """Raise BudgetExceeded when steps, tokens or money are used up, here or in a parent."""
        if self.parent is not None:
            self.parent.check()
        if self.max_steps is not None and self.steps >= self.max_steps:
            raise BudgetExceeded(f"all {self.max_steps} steps are used up", whose=self)
        self.check_spend()

    def check_spend(self) -> None:
        """Raise BudgetExceeded when tokens or money are used up. Who has no step left may still say something."""
        if self.parent is not None:
            self.parent.check_spend()
        if self._over:
            raise BudgetExceeded(self._over, whose=self)
        for name, used, limit in (("tokens", self.tokens, self.max_tokens), ("USD", self.cost_usd, self.max_cost_usd)):
            if limit is not None and used >= limit:
                raise BudgetExceeded(f"all {limit:g} {name} are used up", whose=self)

    def spend_step(self) -> int:
        """Count one tool call and return its number in the attempt, from 1. Raises BudgetExceeded when none is left."""
        with self._lock:
            if self._over:
                raise BudgetExceeded(self._over, whose=self)
            if self.max_steps is not None and self.steps >= self.max_steps:
                raise BudgetExceeded(f"all {self.max_steps} steps are used up", whose=self)
            number = self.steps + 1 if self.parent is None else self.parent.spend_step()
            self.steps += 1
            return number

    def hold(self, most: Held) -> None:
        """Hold back what a call may use at most.

        Raises BudgetExceeded when there is not so much; from then on for everything, however little it asks for.
        """
        with self._lock:
            tokens = self.tokens + self._held.tokens + most.tokens
            cost = self.cost_usd + self._held.cost_usd + most.cost_usd
            if self.max_tokens is not None and tokens > self.max_tokens:
                used = f"{self.tokens} of {self.max_tokens} tokens are used"
                self._over = self._over or f"{used}, and the next call may take {most.tokens}"
            if self.max_cost_usd is not None and cost > self.max_cost_usd:
                used = f"{self.cost_usd:.6f} of {self.max_cost_usd:g} USD are spent"
                self._over = self._over or f"{used}, and the next call may cost {most.cost_usd:.6f}"
            if self._over:
                raise BudgetExceeded(self._over, whose=self)
            if self.parent is not None:
                self.parent.hold(most)
            self._held = self._held.plus(most)

    def settle(self, held: Held, *, tokens: int, cost_usd: float) -> None:
        """Count what a call has used, in place of what was held back for it."""
        with self._lock:
            self._held = self._held.plus(Held(tokens=-held.tokens, cost_usd=-held.cost_usd))
            self.tokens += tokens
            self.cost_usd += cost_usd
            if self.parent is not None:
                self.parent.settle(held, tokens=tokens, cost_usd=cost_usd)


def _least(*amounts: N | None) -> N | None:
    return min((amount for amount in amounts if amount is not None), default=None)
