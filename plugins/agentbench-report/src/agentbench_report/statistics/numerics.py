"""Quantiles and tail probabilities of common distributions, and a root finder.

Here and in ``power``, scipy is imported only when a function that needs it is called. ``scipy.special`` takes 0.2
seconds to import and ``scipy.stats`` far longer. The normal distribution needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STANDARD = NormalDist()


def check_share(name: str, value: float) -> None:
    """Check that a confidence, power or alpha is strictly between 0 and 1.

    Raises:
        ValueError: ``value`` is outside this range, or is NaN.
    """
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")


def normal_quantile(p: float) -> float:
    """The quantile of the standard normal distribution at ``p``, between 0 and 1."""
    return _STANDARD.inv_cdf(p)


def normal_below(z: float) -> float:
    """The probability that a standard normal variable is below ``z``, accurate in both tails."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def two_sided_z(confidence: float) -> float:
    """The half-width of a two-sided normal interval, in standard errors.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    return -normal_quantile((1 - confidence) / 2)


def two_sided_t(confidence: float, df: int) -> float:
    """The half-width of a two-sided interval based on Student's t with ``df`` degrees of freedom, in standard errors.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    return t_quantile((1 + confidence) / 2, df)


def t_quantile(p: float, df: int) -> float:
    """The quantile of Student's t with ``df`` degrees of freedom at ``p``."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def t_below(t: float, df: int) -> float:
    """The probability that Student's t with ``df`` degrees of freedom is below ``t``."""
    from scipy.special import stdtr

    return float(stdtr(df, t))


def chi_square_above(x: float, df: int) -> float:
    """The probability that a chi-square variable with ``df`` degrees of freedom is above ``x``."""
    from scipy.special import chdtrc

    return float(chdtrc(df, x))


def beta_quantile(p: float, a: float, b: float) -> float:
    """The quantile of the beta distribution at ``p``."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def binomial_at_most(k: NDArray[np.int64] | int, n: NDArray[np.int64] | int, rate: float) -> NDArray[np.float64]:
    """P(X <= k) for X successes in ``n`` trials, elementwise; 0 for k < 0 and 1 for k >= n.

    Uses the incomplete beta function, I(n-k, k+1; 1-rate), which is equally accurate for ten and a million trials.
    """
    import numpy as np
    from scipy.special import betainc

    within: NDArray[np.float64] = betainc(np.maximum(np.subtract(n, k), 1), np.maximum(np.add(k, 1), 1), 1 - rate)
    result: NDArray[np.float64] = np.where(np.less(k, 0), 0.0, np.where(np.greater_equal(k, n), 1.0, within))
    return result


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root, to 1e-15, of a decreasing function that is positive near ``low`` and negative near ``high``.

    Uses bisection, which does not evaluate the function at the ends, where scores are undefined.
    """
    while high - low > 1e-15:
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
