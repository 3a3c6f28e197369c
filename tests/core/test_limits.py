"""Deadlines and budgets."""

from __future__ import annotations

import pytest

from agentbench_core import Budget, BudgetExceeded, Deadline, DeadlineExceeded, Interrupted


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_deadline_counts_down_by_its_clock() -> None:
    """Remaining time never goes below zero; checking after the end raises."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    clock.now += 4
    assert deadline.remaining() == 6
    deadline.check()
    clock.now += 7
    assert deadline.remaining() == 0
    with pytest.raises(DeadlineExceeded):
        deadline.check()


def test_a_deadline_within_another_ends_with_the_earlier() -> None:
    """And inherits the reason when the outer one is ended."""
    clock = Clock()
    outer = Deadline(10, clock=clock)
    inner = outer.within(60)
    assert inner.remaining() == 10
    outer.end(Interrupted("stop"))
    with pytest.raises(Interrupted, match="stop"):
        inner.check()


def test_time_given_back_does_not_count() -> None:
    """Waiting for a provider's rate limit is not the agent's time."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    clock.now += 9
    inner = deadline.within(60)
    inner.extend(5)
    assert (inner.remaining(), deadline.remaining()) == (6, 6)


def test_steps_are_counted_and_end() -> None:
    """The step after the last one raises, and is not counted."""
    budget = Budget(max_steps=2)
    assert [budget.spend_step(), budget.spend_step()] == [1, 2]
    with pytest.raises(BudgetExceeded, match="all 2 steps"):
        budget.spend_step()
    assert (budget.steps, budget.steps_left) == (2, 0)


def test_tokens_and_money_end_before_the_next_call() -> None:
    """The call that goes over is already paid; the next one is not made."""
    budget = Budget(max_tokens=100, max_cost_usd=1.0)
    budget.check_spend()
    budget.spend(tokens=10, cost_usd=1.5)
    with pytest.raises(BudgetExceeded, match=r"1\.0 USD"):
        budget.check_spend()
