"""Deadlines and budgets."""

from __future__ import annotations

import threading

import pytest

from agentbench_core import Budget, BudgetExceeded, Deadline, DeadlineExceeded, Interrupted
from agentbench_core.values.limits import Reservation


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_deadline_counts_down_by_its_clock() -> None:
    """Remaining time never drops below zero; checking an expired deadline raises."""
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
    """Ending the outer deadline also ends the inner one, with the same reason."""
    clock = Clock()
    outer = Deadline(10, clock=clock)
    inner = outer.within(60)
    assert inner.remaining() == 10
    outer.end(Interrupted("stop"))
    with pytest.raises(Interrupted, match="stop"):
        inner.check()


def test_extending_a_deadline_extends_its_parent() -> None:
    """Time spent waiting for a provider's rate limit is not charged to the agent."""
    clock = Clock()
    deadline = Deadline(10, clock=clock)
    clock.now += 9
    inner = deadline.within(60)
    inner.extend(5)
    assert (inner.remaining(), deadline.remaining()) == (6, 6)


def test_steps_are_counted_up_to_the_limit() -> None:
    """A step beyond the limit raises and is not counted."""
    budget = Budget(max_steps=2)
    assert [budget.spend_step(), budget.spend_step()] == [1, 2]
    with pytest.raises(BudgetExceeded, match="all 2 steps"):
        budget.spend_step()
    assert (budget.steps, budget.steps_left) == (2, 0)


def test_calls_reserve_their_worst_case() -> None:
    """A call that might exceed the budget is refused, and so is every later call, however small."""
    budget = Budget(max_tokens=100, max_cost_usd=1.0)
    first = Reservation(tokens=60, cost_usd=0.5)
    budget.reserve(first)
    budget.settle(first, tokens=50, cost_usd=0.1)
    assert (budget.tokens_left, budget.cost_left_usd) == (50, 0.9)
    said = "50 of 100 tokens are used, and the next call may take 60"
    with pytest.raises(BudgetExceeded, match=said) as raised:
        budget.reserve(first)
    assert (raised.value.budget, raised.value.what) == (budget, "tokens")
    with pytest.raises(BudgetExceeded, match=said):
        budget.reserve(Reservation(tokens=1, cost_usd=0.0))
    with pytest.raises(BudgetExceeded, match=said):
        budget.spend_step()


def test_cost_limit_is_never_exceeded() -> None:
    """A call too expensive on its own is refused at once; one that depends on others waits until the deadline."""
    budget = Budget(max_cost_usd=1.0)
    most = Reservation(tokens=0, cost_usd=0.6)
    budget.reserve(most)
    with pytest.raises(DeadlineExceeded):
        budget.reserve(most, Deadline(0.3))
    waiting = threading.Thread(target=budget.reserve, args=(most,))
    waiting.start()
    budget.settle(most, tokens=0, cost_usd=0.3)
    waiting.join(60)
    assert not waiting.is_alive()
    budget.settle(most, tokens=0, cost_usd=0.3)
    with pytest.raises(BudgetExceeded, match=r"0\.600000 of 1 USD is spent, and the next call may cost 0\.600000"):
        budget.reserve(most)


def test_usage_of_a_share_counts_for_its_parent() -> None:
    """Usage of a sub-agent counts towards its parent; a child can run out before its parent does."""
    parent = Budget(max_steps=10, max_tokens=1000)
    child = parent.share(max_steps=2, max_tokens=100)
    grandchild = child.share(max_steps=5)
    assert [grandchild.spend_step(), child.spend_step()] == [1, 2]
    assert (parent.steps, parent.steps_left, grandchild.steps_left) == (2, 8, 0)
    with pytest.raises(BudgetExceeded) as raised:
        grandchild.spend_step()
    assert raised.value.budget is child
    parent.check()
    most = Reservation(tokens=90, cost_usd=0.0)
    grandchild.reserve(most)
    grandchild.settle(most, tokens=40, cost_usd=0.0)
    assert (parent.tokens_left, child.tokens_left) == (960, 60)
    with pytest.raises(BudgetExceeded) as raised:
        grandchild.reserve(most)
    assert raised.value.budget is child
    assert parent.left == "8 steps, 960 tokens"
    parent.reserve(Reservation(tokens=900, cost_usd=0.0))


def test_a_share_ends_with_its_parent() -> None:
    """The error refers to the budget that ran out, here the parent's."""
    parent = Budget(max_steps=1)
    child = parent.share(max_steps=9)
    assert child.steps_left == 1
    child.spend_step()
    with pytest.raises(BudgetExceeded) as raised:
        child.spend_step()
    assert (raised.value.budget, child.steps) == (parent, 1)


def test_exhausted_steps_do_not_block_model_calls() -> None:
    """Steps count tool calls only; a final report needs none."""
    budget = Budget(max_steps=1, max_tokens=10)
    budget.spend_step()
    budget.check_spend()
    with pytest.raises(BudgetExceeded, match="all 1 steps"):
        budget.check()
