"""The sign-flip permutation test of paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_report.statistics.numerics import binomial_at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_EXACT = 22
"""The upper limit of ``exact_up_to``. The number of sums doubles with each difference, and 2²² sums take 32 MiB."""
_CHUNK = 1 << 20
"""The number of signs drawn at once, which take 8 MiB as floats."""


@attrs.frozen(kw_only=True)
class SignFlip:
    """The p-values of ``sign_flip``."""

    two_sided: float
    greater: float
    """The one-sided p-value for B being better than A."""
    exact: bool
    """Whether all sign assignments were counted, rather than a random sample."""


def sign_flip(differences: Sequence[float], seed: int, resamples: int = 10_000, exact_up_to: int = 20) -> SignFlip:
    """Test that the differences ``B - A`` of tasks are symmetric around 0, by flipping their signs.

    If the runs do not differ, each difference is equally likely to have the opposite sign. This assumes that, without a
    true difference, gains and losses have the same distribution. If a few tasks lose much and many gain little, so that
    the mean is 0, a small sample is likely to contain only gains, and p is too small. Check the result against
    ``tango_mean``, which allows for unobserved kinds of tasks.

    p is the share of all 2ⁿ sign assignments whose sum is at least as far from 0 as the observed sum (for
    ``greater``: at least as large). Differences of 0 are ignored. All assignments are counted with up to
    ``exact_up_to`` nonzero differences, and with any number if all have the same size, where the test equals
    ``mcnemar_exact``. Otherwise ``resamples`` assignments are drawn using ``PCG64(seed)``, and
    ``p = (1 + hits) / (1 + resamples)``.

    Source: R. A. Fisher, The Design of Experiments (1935), section 21; B. Phipson and G. K. Smyth, Statistical
    Applications in Genetics and Molecular Biology 9 (2010) 39, for the sampled p.

    Raises:
        ValueError: a difference is not finite, ``resamples`` is below 1, or ``exact_up_to`` is above 22.
    """
    if not all(map(math.isfinite, differences)) or resamples < 1 or exact_up_to > _MAX_EXACT:
        raise ValueError("sign_flip requires finite differences, at least 1 resample and an exact_up_to of at most 22")
    nonzero = [difference for difference in differences if difference]
    if not nonzero:
        return SignFlip(two_sided=1.0, greater=1.0, exact=True)
    if len({abs(difference) for difference in nonzero}) == 1:
        return _equal_sizes(sum(difference > 0 for difference in nonzero), len(nonzero))
    if len(nonzero) <= exact_up_to:
        return _p_values(_all_sums(nonzero), nonzero, extra=0)
    return _p_values(_drawn_sums(nonzero, seed, resamples), nonzero, extra=1)


def _equal_sizes(up: int, nonzero: int) -> SignFlip:
    two_sided = min(1.0, 2 * float(binomial_at_most(min(up, nonzero - up), nonzero, 0.5)))
    return SignFlip(two_sided=two_sided, greater=float(binomial_at_most(nonzero - up, nonzero, 0.5)), exact=True)


def _p_values(sums: NDArray[np.float64], nonzero: Sequence[float], *, extra: int) -> SignFlip:
    import numpy as np

    observed = math.fsum(nonzero)
    tolerance = 1e-10 * math.fsum(map(abs, nonzero))  # equal sums may differ in their last digits
    far = int(np.count_nonzero(np.abs(sums) >= abs(observed) - tolerance))
    above = int(np.count_nonzero(sums >= observed - tolerance))
    total = extra + len(sums)
    return SignFlip(two_sided=(extra + far) / total, greater=(extra + above) / total, exact=not extra)


def _all_sums(nonzero: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    sums = np.zeros(1)
    for difference in nonzero:
        sums = np.concatenate((sums - difference, sums + difference))
    return sums


def _drawn_sums(nonzero: Sequence[float], seed: int, resamples: int) -> NDArray[np.float64]:
    import numpy as np

    generator, values = np.random.Generator(np.random.PCG64(seed)), np.asarray(nonzero, dtype=np.float64)
    sums, rows = np.empty(resamples), max(1, _CHUNK // len(values))
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        up = generator.integers(0, 2, size=(stop - start, len(values)), dtype=np.int8)
        sums[start:stop] = 2 * (up @ values)
    sums -= values.sum()
    return sums
