"""Coverage of confidence intervals for a difference, with repeats. docs/statistics.md contains the output.

Tasks are drawn from three distributions, and both runs attempt each task one or more times. A figure is the share of
such comparisons (1,000, or the first argument) in which the 95% interval contains the true difference; with 1,000,
a figure near .95 has a standard error of 0.7 pp.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agentbench_report.statistics import Interval, bootstrap_mean, mean_difference, tango_mean

Rates = NDArray[np.float64]
World = Callable[[np.random.Generator, int], tuple[Rates, Rates]]

TASKS, REPEATS, RESAMPLES = (12, 30, 60, 100, 200), (1, 5, 10), 1_000


def scattered(draw: np.random.Generator, tasks: int) -> tuple[Rates, Rates]:
    """Tasks of every difficulty, on which B is sometimes slightly better and sometimes slightly worse: difference 0."""
    a = draw.beta(0.6, 0.6, tasks)
    return a, np.clip(a + draw.normal(0, 0.15, tasks), 0, 1)


def improved(draw: np.random.Generator, tasks: int) -> tuple[Rates, Rates]:
    """B passes a fifth of the attempts that A fails: difference 0.1."""
    a = draw.beta(0.6, 0.6, tasks)
    return a, a + (1 - a) / 5


def lost_for_good(draw: np.random.Generator, tasks: int) -> tuple[Rates, Rates]:
    """B fails every attempt at 8% of the tasks, which A passes, and is otherwise equal: difference -0.08."""
    a = draw.choice([0.0, 1.0], tasks, p=[0.4, 0.6])
    lost = draw.random(tasks) < 0.08
    return np.where(lost, 1.0, a), np.where(lost, 0.0, a)


WORLDS: dict[World, float] = {scattered: 0.0, improved: 0.1, lost_for_good: -0.08}
METHODS: dict[str, Callable[[list[float]], Interval]] = {
    "tango_mean": tango_mean,
    "t": lambda differences: mean_difference(differences).interval,
    "BCa": lambda differences: bootstrap_mean(differences, seed=1, resamples=RESAMPLES).interval,
}


def covered(world: World, truth: float, tasks: int, repeats: int, times: int) -> list[float]:
    """The share of comparisons in which each method's interval contains the true difference."""
    draw, held = np.random.default_rng([tasks, repeats]), dict.fromkeys(METHODS, 0)
    for _ in range(times):
        a, b = (draw.binomial(repeats, rates) / repeats for rates in world(draw, tasks))
        differences: list[float] = (b - a).tolist()
        for name, method in METHODS.items():
            intervals = method(differences)
            held[name] += intervals.low <= truth <= intervals.high
    return [held[name] / times for name in METHODS]


def main() -> None:
    """Print a table for docs/statistics.md."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(f"| tasks | attempts | {' | '.join(world.__name__.replace('_', ' ') for world in WORLDS)} |")
    print(f"|---|---|{'---|' * len(WORLDS)}", flush=True)
    for tasks in TASKS:
        for repeats in REPEATS:
            results = [covered(world, truth, tasks, repeats, times) for world, truth in WORLDS.items()]
            cells = [" / ".join(f"{share:.3f}".removeprefix("0") for share in shares) for shares in results]
            print(f"| {tasks} | {repeats} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
