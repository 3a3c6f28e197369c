"""A test of paired differences that supposes nothing about their distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_report.statistics.numerics import binomial_at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_EXACT = 22
"""Twice as many sums for each further difference: 2²² of them take 32 MiB."""
_CELLS = 1 << 20
"""How many signs are drawn at once: 8 MiB of them."""


@attrs.frozen(kw_only=True)
class SignFlip:
    """p values of ``sign_flip``."""

    two_sided: float
    greater: float
    """For B better than A."""
    exact: bool
    """All flips were counted; else a sample of them was."""


def sign_flip(differences: Sequence[float], seed: int, resamples: int = 10_000, exact_up_to: int = 20) -> SignFlip:
    """Test that differences ``B - A`` of tasks are as often up as down: would other signs have summed to as much?

    If the runs do not differ, every difference could as well have had the other sign: this supposes that, without a
    true difference, tasks gain and lose alike. Where a few tasks lose much and many gain little, so that the mean is 0,
    few tasks are likely to hold only the gains, and p is too small: hold it against ``tango_mean``, which leaves room
    for tasks that were not seen.

    p is the share of all 2ⁿ choices of signs whose sum is at least as far from 0 (or at least as great) as the one that
    was seen. Differences of 0 do not matter. Up to ``exact_up_to`` others all are counted, and for any number when all
    are of one size: then it is ``mcnemar_exact``. Beyond, ``resamples`` are drawn by ``PCG64(seed)``, and
    ``p = (1 + hits) / (1 + resamples)``.

    Source: R. A. Fisher, The Design of Experiments (1935), section 21; B. Phipson and G. K. Smyth, Statistical
    Applications in Genetics and Molecular Biology 9 (2010) 39, for the sampled p.

    Raises:
        ValueError: a difference is not finite, ``resamples`` is below 1, or ``exact_up_to`` is above 22.
    """
    if not all(map(math.isfinite, differences)) or resamples < 1 or exact_up_to > _MOST_EXACT:
        raise ValueError("sign_flip takes finite differences, at least 1 resample and exact_up_to of at most 22")
    moved = [difference for difference in differences if difference]
    if not moved:
        return SignFlip(two_sided=1.0, greater=1.0, exact=True)
    if len({abs(difference) for difference in moved}) == 1:
        return _of_one_size(sum(difference > 0 for difference in moved), len(moved))
    if len(moved) <= exact_up_to:
        return _shares(_all_sums(moved), moved, extra=0)
    return _shares(_drawn_sums(moved, seed, resamples), moved, extra=1)


def _of_one_size(up: int, moved: int) -> SignFlip:
    two_sided = min(1.0, 2 * float(binomial_at_most(min(up, moved - up), moved, 0.5)))
    return SignFlip(two_sided=two_sided, greater=float(binomial_at_most(moved - up, moved, 0.5)), exact=True)


def _shares(sums: NDArray[np.float64], moved: Sequence[float], *, extra: int) -> SignFlip:
    import numpy as np

    seen = math.fsum(moved)
    slack = 1e-10 * math.fsum(map(abs, moved))  # sums that are equal may differ in their last digits
    far = int(np.count_nonzero(np.abs(sums) >= abs(seen) - slack))
    above = int(np.count_nonzero(sums >= seen - slack))
    of = extra + len(sums)
    return SignFlip(two_sided=(extra + far) / of, greater=(extra + above) / of, exact=not extra)


def _all_sums(moved: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    sums = np.zeros(1)
    for difference in moved:
        sums = np.concatenate((sums - difference, sums + difference))
    return sums


def _drawn_sums(moved: Sequence[float], seed: int, resamples: int) -> NDArray[np.float64]:
    import numpy as np

    generator, values = np.random.Generator(np.random.PCG64(seed)), np.asarray(moved, dtype=np.float64)
    sums, rows = np.empty(resamples), max(1, _CELLS // len(values))
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        up = generator.integers(0, 2, size=(stop - start, len(values)), dtype=np.int8)
        sums[start:stop] = 2 * (up @ values)
    sums -= values.sum()
    return sums
