"""Bootstrap intervals by resampling tasks, each with all its attempts in both runs."""

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

_MIN_RESAMPLES = 100
_CHUNK = 1 << 20
"""The maximum number of tasks drawn at once (12 MiB), except that at least one whole resample is always drawn."""


@attrs.frozen(kw_only=True)
class Bootstrap:
    """Bootstrap estimates for a mean over tasks."""

    interval: Interval
    """BCa: bias-corrected and accelerated."""
    percentile: Interval
    se: float | None
    """The standard deviation of the resampled means; ``None`` with no tasks."""
    degenerate: bool
    """All values are equal, so the intervals have zero width, or there are no values."""
    resamples: int
    seed: int


def seed_of(*run_ids: str) -> int:
    """A seed below 2⁴⁸ derived from the run ids, independent of their order.

    The seed is the first six bytes of SHA-256 over the sorted ids, each followed by a newline. This makes reports
    reproducible to the last digit and prevents choosing a convenient seed. Every JSON parser can represent the seed.
    """
    joined = "".join(f"{run_id}\n" for run_id in sorted(run_ids))
    return int.from_bytes(hashlib.sha256(joined.encode()).digest()[:6], "big")


def bootstrap_mean(
    differences: Sequence[float], seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Bootstrap:
    """Bootstrap the mean over tasks of one value per task (a difference ``B - A`` or a rate).

    Draws ``resamples`` samples of n tasks with replacement, using numpy's ``PCG64(seed)``, so the result depends only
    on the values, their order and the seed. The intervals are usually too narrow with up to about 200 tasks
    (``benchmarks/coverage.py``), so report ``tango_mean`` instead. If all values are equal, the interval has zero
    width; with no values, it is -1 to 1. Both cases are marked degenerate.

    Source: B. Efron, Better bootstrap confidence intervals, JASA 82 (1987) 171; A. C. Davison and D. V. Hinkley,
    Bootstrap Methods and their Application (1997), sections 5.3 and 3.8 (why only the outer level is resampled).

    Raises:
        ValueError: a value is not finite, ``resamples`` is below 100, or ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    if resamples < _MIN_RESAMPLES or not all(map(math.isfinite, differences)):
        raise ValueError(f"the bootstrap requires finite values and at least {_MIN_RESAMPLES} resamples")
    if not differences:
        everything = Interval(low=-1.0, high=1.0, confidence=confidence)
        return Bootstrap(
            interval=everything, percentile=everything, se=None, degenerate=True, resamples=resamples, seed=seed
        )
    return bootstrap_from(differences, resampled_means(differences, seed, resamples), seed, confidence)


def bootstrap_from(values: Sequence[float], means: NDArray[np.float64], seed: int, confidence: float) -> Bootstrap:
    """The bootstrap estimates for at least one value from its resampled ``means`` (a sample, or all nⁿ of them)."""
    percentile = percentile_interval(means, confidence)
    degenerate = _all_equal(values)
    return Bootstrap(
        interval=percentile if degenerate else bca_interval(values, means, confidence),
        percentile=percentile,
        se=0.0 if degenerate else float(means.std()),
        degenerate=degenerate,
        resamples=len(means),
        seed=seed,
    )


def percentile_interval(means: NDArray[np.float64], confidence: float) -> Interval:
    """The quantiles of the resampled means at ``(1 ± confidence) / 2`` (type 7: linear interpolation)."""
    tail = (1 - confidence) / 2
    return _quantiles(means, tail, 1 - tail, confidence)


def bca_interval(values: Sequence[float], means: NDArray[np.float64], confidence: float) -> Interval:
    """The quantiles of the resampled ``means`` of ``values`` at levels corrected for bias and skewness.

    ``Φ(z0 + (z0 ± z) / (1 - a(z0 ± z)))`` with z0 and a from ``bca_parameters``.
    """
    z0, a = bca_parameters(values, means)
    z = two_sided_z(confidence)

    def level(shifted: float) -> float:
        scale = 1 - a * shifted
        return normal_below(z0 + shifted / scale) if scale > 0 else float(shifted > 0)  # beyond the pole

    return _quantiles(means, level(z0 - z), level(z0 + z), confidence)


def bca_parameters(values: Sequence[float], means: NDArray[np.float64]) -> tuple[float, float]:
    """Bias z0 and acceleration a of the mean of ``values`` (not all equal), from its resampled ``means``.

    ::

        z0 = Φ⁻¹(P(θ* < θ) + P(θ* = θ)/2)
        a  = Σd³ / (6 (Σd²)^1.5),  d_i = mean of the jackknife means - jackknife mean without value i

    If ties did not count as half, z0 would be wrong for 0/1 data, where many resampled means equal the mean.
    """
    import numpy as np

    points = np.asarray(values, dtype=np.float64)
    mean = math.fsum(values) / len(values)
    tolerance = 1e-10 * float(np.abs(points).max())  # equal means may differ in their last digits
    below = np.count_nonzero(means < mean - tolerance)
    ties = np.count_nonzero(np.abs(means - mean) <= tolerance)
    share = (float(below) + float(ties) / 2) / len(means)
    half_one = 0.5 / len(means)  # keeps the share within (0, 1) if all resampled means are on one side
    deviations = points - mean  # the jackknife deviations are these divided by n-1, which cancels out
    a = float(np.sum(deviations**3)) / (6 * float(np.sum(deviations**2)) ** 1.5)
    return normal_quantile(min(max(share, half_one), 1 - half_one)), a


def _quantiles(means: NDArray[np.float64], low: float, high: float, confidence: float) -> Interval:
    import numpy as np

    ends = np.quantile(means, [low, high])
    return Interval(low=float(ends[0]), high=float(ends[1]), confidence=confidence)


def _all_equal(values: Sequence[float]) -> bool:
    return bool(max(values) - min(values) <= EQUAL)


def resampled_means(values: Sequence[float], seed: int, resamples: int) -> NDArray[np.float64]:
    """The means of ``resamples`` samples of ``len(values)`` values, drawn with replacement using ``PCG64(seed)``."""
    import numpy as np

    if _all_equal(values):
        return np.full(resamples, values[0])
    generator, points = np.random.Generator(np.random.PCG64(seed)), np.asarray(values, dtype=np.float64)
    n = len(points)
    means, rows = np.empty(resamples), max(1, _CHUNK // n)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = generator.integers(0, n, size=(stop - start, n), dtype=np.int32)
        means[start:stop] = points[drawn].mean(axis=1)
    return means
