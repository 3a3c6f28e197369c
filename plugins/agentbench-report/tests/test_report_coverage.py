"""Coverage of the CI of a difference with repeats; ``benchmarks/coverage.py`` covers more cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentbench_report.comparison.alignment import Alignment, TaskPair
from agentbench_report.comparison.estimates import Question, estimate
from agentbench_report.counts import TaskCounts


def mixed(draw: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    """Return pass rates of tasks of every difficulty. B is randomly a little better or worse."""
    a = draw.beta(0.6, 0.6, tasks)
    return a, np.clip(a + draw.normal(0, 0.15, tasks), 0, 1)


def lost_for_good(draw: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    """Return pass rates. B's equal A's, except that 8% of the tasks fail in every attempt of B."""
    a = draw.choice([0.0, 1.0], tasks, p=[0.4, 0.6])
    lost = draw.random(tasks) < 0.08
    return np.where(lost, 1, a), np.where(lost, 0, a)


@pytest.mark.long
@pytest.mark.parametrize(("world", "truth"), [(mixed, 0.0), (lost_for_good, -0.08)])
def test_interval_with_repeats_has_its_nominal_coverage(world: Callable[..., Any], truth: float) -> None:
    """With 100 tasks and 5 attempts, BCa would cover 93% in the first case and t 90% in the second."""
    draw, times, tasks, repeats = np.random.default_rng(7), 600, 100, 5
    question, held = Question(method="bootstrap", confidence=0.95, resamples=200, seed=1), 0
    for _ in range(times):
        passed = [draw.binomial(repeats, rates).tolist() for rates in world(draw, tasks)]
        pairs = [
            TaskPair(
                task_id=str(i),
                digest=str(i),
                a=TaskCounts(task_id=str(i), digest=str(i), passed=of_a, scored=repeats),
                b=TaskCounts(task_id=str(i), digest=str(i), passed=of_b, scored=repeats),
            )
            for i, (of_a, of_b) in enumerate(zip(*passed, strict=True))
        ]
        found = estimate(Alignment(pairs=tuple(pairs), only_a=(), only_b=()), question)
        held += found.interval.low <= truth <= found.interval.high
    assert held >= 0.94 * times
