"""Intervals by resampling tasks: a task goes in or out with all its attempts, in both runs at once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import EQUAL
from agentbench_report.statistics.numerics import check_share, normal_below, normal_quantile, two_sided_z

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST = 100
_CELLS = 1 << 20
"""How many tasks are drawn at once, in one or more resamples: 12 MiB of them."""


@attrs.frozen(kw_only=True)
class Bootstrap:
    """What resampling says about a mean over tasks."""

    interval: Interval
    """BCa: bias-corrected and accelerated."""
    percentile: Interval
    se: float | None
    """The standard deviation of the resampled means; ``None`` without a task."""
    degenerate: bool
    """There was nothing to resample: all values are equal, and the intervals have no width; or there are none."""
    resamples: int
    seed: int


def seed_of(*run_ids: str) -> int:
    """A seed from the runs that are compared: the same for the same runs in any order, below 2⁴⁸.

    The first six bytes of SHA-256 over the sorted ids, each ended by a line end. So that a report can be made again to
    the last digit, nobody can look for a seed that they like, and every JSON reader can hold it.
    """
    joined = "".join(f"{run_id}\n" for run_id in sorted(run_ids))
    return int.from_bytes(hashlib.sha256(joined.encode()).digest()[:6], "big")


def bootstrap_mean(
    differences: Sequence[float], seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Bootstrap:
    """The mean over tasks of one value per task (a difference ``B - A``, a rate), by resampling tasks.

    Draws ``resamples`` times as many tasks as there are, with replacement, by numpy's ``PCG64(seed)``: the result
    depends on the values, their order and the seed only. Mostly too narrow, up to some 200 tasks
    (``benchmarks/coverage.py``): ``tango_mean`` is the interval to tell. Values that are all equal give an interval of
    no width, none at all one of -1 to 1; both are marked degenerate.

    Source: B. Efron, Better bootstrap confidence intervals, JASA 82 (1987) 171; A. C. Davison and D. V. Hinkley,
    Bootstrap Methods and their Application (1997), sections 5.3 and 3.8 (why the outer level alone).

    Raises:
        ValueError: a value is not finite, ``resamples`` is below 100, or ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    if resamples < _FEWEST or not all(map(math.isfinite, differences)):
        raise ValueError(f"a bootstrap takes finite values and at least {_FEWEST} resamples")
    if not differences:
        everything = Interval(low=-1.0, high=1.0, confidence=confidence)
        return Bootstrap(
            interval=everything, percentile=everything, se=None, degenerate=True, resamples=resamples, seed=seed
        )
    return bootstrap_from(differences, resampled_means(differences, seed, resamples), seed, confidence)


def bootstrap_from(values: Sequence[float], means: NDArray[np.float64], seed: int, confidence: float) -> Bootstrap:
    """What the resampled ``means`` of at least one value say: a sample of them, or all nⁿ that there are."""
    percentile = percentile_interval(means, confidence)
    flat = _flat(values)
    return Bootstrap(
        interval=percentile if flat else bca_interval(values, means, confidence),
        percentile=percentile,
        se=0.0 if flat else float(means.std()),
        degenerate=flat,
        resamples=len(means),
        seed=seed,
    )


def percentile_interval(means: NDArray[np.float64], confidence: float) -> Interval:
    """The quantiles of the resampled means at ``(1 ± confidence) / 2`` (type 7: linear between neighbours)."""
    tail = (1 - confidence) / 2
    return _quantiles(means, tail, 1 - tail, confidence)


def bca_interval(values: Sequence[float], means: NDArray[np.float64], confidence: float) -> Interval:
    """The quantiles of the resampled ``means`` of ``values`` at levels that make up for bias and skewness.

    ``Φ(z0 + (z0 ± z) / (1 - a(z0 ± z)))`` with z0 and a from ``bca_parameters``.
    """
    z0, a = bca_parameters(values, means)
    z = two_sided_z(confidence)

    def level(shifted: float) -> float:
        scale = 1 - a * shifted
        return normal_below(z0 + shifted / scale) if scale > 0 else float(shifted > 0)  # beyond its pole: the very end

    return _quantiles(means, level(z0 - z), level(z0 + z), confidence)


def bca_parameters(values: Sequence[float], means: NDArray[np.float64]) -> tuple[float, float]:
    """Bias z0 and acceleration a of the mean of ``values``, which are not all equal, from its resampled ``means``.

    ::

        z0 = Φ⁻¹(P(θ* < θ) + P(θ* = θ)/2)
        a  = Σd³ / (6 (Σd²)^1.5),  d_i the mean of the jackknife means less the one without i

    Without the half of the ties z0 is wrong for 0/1 data, where many resampled means equal the mean.
    """
    import numpy as np

    points = np.asarray(values, dtype=np.float64)
    mean = math.fsum(values) / len(values)
    slack = 1e-10 * float(np.abs(points).max())  # means that are equal may differ in their last digits
    below = np.count_nonzero(means < mean - slack)
    ties = np.count_nonzero(np.abs(means - mean) <= slack)
    share = (float(below) + float(ties) / 2) / len(means)
    half_one = 0.5 / len(means)  # all resamples on one side: no quantile; never with many
    deviations = points - mean  # those of the jackknife are these over n-1, which cancels out
    a = float(np.sum(deviations**3)) / (6 * float(np.sum(deviations**2)) ** 1.5)
    return normal_quantile(min(max(share, half_one), 1 - half_one)), a


def _quantiles(means: NDArray[np.float64], low: float, high: float, confidence: float) -> Interval:
    import numpy as np

    ends = np.quantile(means, [low, high])
    return Interval(low=float(ends[0]), high=float(ends[1]), confidence=confidence)


def _flat(values: Sequence[float]) -> bool:
    return bool(max(values) - min(values) <= EQUAL)


def resampled_means(values: Sequence[float], seed: int, resamples: int) -> NDArray[np.float64]:
    """The means of ``resamples`` samples of as many values as there are, drawn with replacement by ``PCG64(seed)``."""
    import numpy as np

    if _flat(values):
        return np.full(resamples, values[0])
    generator, points = np.random.Generator(np.random.PCG64(seed)), np.asarray(values, dtype=np.float64)
    n = len(points)
    means, rows = np.empty(resamples), max(1, _CELLS // n)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = generator.integers(0, n, size=(stop - start, n), dtype=np.int32)
        means[start:stop] = points[drawn].mean(axis=1)
    return means
