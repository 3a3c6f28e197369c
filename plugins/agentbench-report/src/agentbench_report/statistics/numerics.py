"""Quantiles and tails of the usual distributions, and a root finder.

scipy is imported only when a function that needs it is called, here and in ``power``: ``scipy.special`` takes a fifth
of a second to import and ``scipy.stats`` far longer, while the normal distribution needs neither.
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
    """Complain unless a confidence, power or alpha lies between 0 and 1, neither included.

    Raises:
        ValueError: it does not, or is NaN.
    """
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not be {value}")


def normal_quantile(p: float) -> float:
    """The number below which a standard normal variable falls with probability ``p``, between 0 and 1."""
    return _STANDARD.inv_cdf(p)


def normal_below(z: float) -> float:
    """The probability that a standard normal variable is below ``z``; exact to the last digits in both tails."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def two_sided_z(confidence: float) -> float:
    """How many standard errors an interval reaches to either side, by the normal distribution.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    return -normal_quantile((1 - confidence) / 2)


def two_sided_t(confidence: float, df: int) -> float:
    """How many standard errors an interval reaches to either side, by Student's t with ``df`` degrees of freedom.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    check_share("confidence", confidence)
    return t_quantile((1 + confidence) / 2, df)


def t_quantile(p: float, df: int) -> float:
    """The number below which Student's t with ``df`` degrees of freedom falls with probability ``p``."""
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
    """The number below which a beta variable falls with probability ``p``."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def binomial_at_most(k: NDArray[np.int64] | int, n: NDArray[np.int64] | int, rate: float) -> NDArray[np.float64]:
    """P(X <= k) for X of ``n`` trials, element by element; 0 below 0 and 1 from ``n`` on.

    By the incomplete beta function, I(n-k, k+1; 1-rate): as exact at a million trials as at ten.
    """
    import numpy as np
    from scipy.special import betainc

    within: NDArray[np.float64] = betainc(np.maximum(np.subtract(n, k), 1), np.maximum(np.add(k, 1), 1), 1 - rate)
    found: NDArray[np.float64] = np.where(np.less(k, 0), 0.0, np.where(np.greater_equal(k, n), 1.0, within))
    return found


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls from positive near ``low`` to negative near ``high`` is 0, to 1e-15.

    By bisection, which needs no value at the ends: scores are not defined there.
    """
    while high - low > 1e-15:
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
