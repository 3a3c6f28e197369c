"""Coverage of the intervals for cost and effort. docs/statistics.md contains the output.

The amounts of both runs are log-normal, with a common part per task, and B uses 1.2 times as much as A. A figure is the
share of such comparisons (1,000, or the first argument) in which the 95% interval contains the true value.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from agentbench_report.statistics import paired_amounts
from agentbench_report.statistics.bootstrap import percentile_interval

RATIO, RESAMPLES = 1.2, 500
TASKS = (12, 30, 60, 200)
SPREADS = ((1.0, 0.3), (1.0, 0.8), (0.5, 0.5))
"""Standard deviations of the logarithm: between tasks, and between attempts at one task."""


def covered(tasks: int, between: float, within: float, times: int) -> list[float]:
    """The shares for the difference (t), the ratio (Fieller), and the ratio (percentile bootstrap)."""
    draw = np.random.default_rng([tasks, int(10 * between), int(10 * within)])
    difference = (RATIO - 1) * math.exp((between**2 + within**2) / 2)
    held, bounded = [0, 0, 0], 0
    for _ in range(times):
        common = draw.normal(0, between, tasks)
        a, b = (factor * np.exp(common + draw.normal(0, within, tasks)) for factor in (1.0, RATIO))
        found = paired_amounts(a.tolist(), b.tolist())
        assert found is not None
        assert found.interval is not None
        held[0] += found.interval.low <= difference <= found.interval.high
        if found.ratio_interval is not None:
            bounded += 1
            held[1] += found.ratio_interval.low <= RATIO <= found.ratio_interval.high
        drawn = draw.integers(0, tasks, (RESAMPLES, tasks))
        resampled = percentile_interval(b[drawn].mean(axis=1) / a[drawn].mean(axis=1), 0.95)
        held[2] += resampled.low <= RATIO <= resampled.high
    return [held[0] / times, held[1] / bounded, held[2] / times, 1 - bounded / times]


def main() -> None:
    """Print a table for docs/statistics.md."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print("| tasks | spread | difference: t | ratio: Fieller | ratio: bootstrap | no interval for the ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    for tasks in TASKS:
        for between, within in SPREADS:
            *shares, none = covered(tasks, between, within, times)
            cells = " | ".join(f"{share:.3f}".removeprefix("0") for share in shares)
            print(f"| {tasks} | {between:g}, {within:g} | {cells} | {none:.1%} |", flush=True)


if __name__ == "__main__":
    main()
