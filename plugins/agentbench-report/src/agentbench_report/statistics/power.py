"""Sample size, power and minimum detectable effect.

``p_regress`` and ``p_improve`` are the expected shares of tasks that only A and only B pass. Their difference Δ is the
effect, their sum ψ the discordance. alpha is two-sided.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from agentbench_report.statistics.numerics import (
    binomial_at_most,
    check_share,
    normal_below,
    normal_quantile,
    t_quantile,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def connor_tasks(p_regress: float, p_improve: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The number of tasks required by McNemar's test with one attempt each: ``[z√ψ + z_β√(ψ-Δ²)]² / Δ²``; round up.

    Source: R. J. Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics 43
    (1987) 207.

    Raises:
        ValueError: the shares are invalid, or equal (no number of tasks can detect a difference of 0), or ``power`` or
            ``alpha`` is not between 0 and 1.
    """
    effect, psi = _effect(p_regress, p_improve)
    z, z_power = _quantiles(power, alpha)
    root = (z * math.sqrt(psi) + z_power * math.sqrt(max(0.0, psi - effect**2))) / effect
    return root * root  # inf for the smallest effects, where root**2 would raise OverflowError


def miettinen_tasks(p_regress: float, p_improve: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The number of tasks by Miettinen's formula: ``[zψ + z_β√(ψ² - Δ²(3+ψ)/4)]² / (ψΔ²)``; round up.

    Source: O. S. Miettinen, The matched pairs design in the case of all-or-none responses, Biometrics 24 (1968) 339.
    The result is slightly smaller than that of ``connor_tasks``.

    Raises:
        ValueError: as for ``connor_tasks``.
    """
    effect, psi = _effect(p_regress, p_improve)
    z, z_power = _quantiles(power, alpha)
    spread = math.sqrt(max(0.0, psi**2 - effect**2 * (3 + psi) / 4))
    return (z * psi + z_power * spread) ** 2 / (psi * effect**2)


def connor_power(n: int, p_regress: float, p_improve: float, alpha: float = 0.05) -> float:
    """The power of McNemar's test with ``n`` tasks: ``Φ((|Δ|√n - z√ψ) / √(ψ-Δ²))``.

    Correct for the asymptotic test, approximate for the mid-p test, and too high for the exact test.

    Source: as ``connor_tasks``, solved for the power.

    Raises:
        ValueError: ``n`` is negative, the shares are invalid, or ``alpha`` is not between 0 and 1.
    """
    psi = _discordance(n, p_regress, p_improve)
    check_share("alpha", alpha)
    effect = abs(p_improve - p_regress)
    if effect == 0 or n == 0:
        return 0.0
    excess, spread = effect * math.sqrt(n) + normal_quantile(alpha / 2) * math.sqrt(psi), math.sqrt(psi - effect**2)
    return normal_below(excess / spread) if spread > 0 else float(excess > 0)


def exact_power(n: int, p_regress: float, p_improve: float, alpha: float = 0.05, *, midp: bool = True) -> float:
    """The power of McNemar's mid-p (or exact) test with ``n`` tasks: the probability that p <= ``alpha``, enumerated.

    ``Σ_m P(m of n tasks are discordant) · P(p <= alpha | m)``, with m binomial with rate ψ, and the improvements among
    them binomial with rate ``p_improve / ψ``.

    Source: enumeration of the test's definition; see ``mcnemar_midp``, ``mcnemar_exact``.

    Raises:
        ValueError: ``n`` is negative, the shares are invalid, or ``alpha`` is not between 0 and 1.
    """
    import numpy as np

    psi = _discordance(n, p_regress, p_improve)
    check_share("alpha", alpha)
    if psi == 0:
        return 0.0
    middle, width = n * psi, 9 * math.sqrt(n * psi * (1 - psi)) + 12  # the probability beyond this is negligible
    m = np.arange(max(0, math.floor(middle - width)), min(n, math.ceil(middle + width)) + 1)
    weights = np.diff(binomial_at_most(np.concatenate((m[:1] - 1, m)), n, psi))
    most, up = _most_rejected(m, alpha, midp=midp), min(1.0, p_improve / psi)
    rejected = binomial_at_most(most, m, up) + binomial_at_most(most, m, 1 - up)
    return min(1.0, float(weights @ rejected))


def exact_tasks(
    p_regress: float,
    p_improve: float,
    power: float = 0.8,
    alpha: float = 0.05,
    *,
    midp: bool = True,
    at_most: int = 100_000,
) -> int | None:
    """A number n of tasks such that ``exact_power`` reaches ``power`` with n but not with n-1, by bisection.

    ``None`` if n would exceed ``at_most``.

    Raises:
        ValueError: as for ``connor_tasks``.
    """
    approximate = connor_tasks(p_regress, p_improve, power, alpha)
    guess = max(1, math.ceil(min(approximate, at_most)))

    def enough(n: int) -> bool:
        return exact_power(n, p_regress, p_improve, alpha, midp=midp) >= power

    short, high = 0, guess
    while not enough(high):
        if high >= at_most:
            return None
        short, high = high, min(2 * high, at_most)
    while high - short > 1:
        middle = (short + high) // 2
        short, high = (short, middle) if enough(middle) else (middle, high)
    return high


def minimum_detectable(n: int, discordance: float, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest difference in rates that ``n`` tasks with this share of discordant tasks detect with ``power``.

    The effect at which ``connor_power`` equals ``power``::

        √ψ (z√n + z_β√(n + z_β² - z²)) / (n + z_β²)

    ``None`` if that exceeds ψ, the largest possible difference, if ψ is 0, or if ``n`` is 0 or below ``z² - z_β²``.

    Source: as ``connor_tasks``, solved for Δ.

    Raises:
        ValueError: ``n`` is negative, ``discordance`` is not from 0 to 1, or ``power`` or ``alpha`` is not between 0
            and 1.
    """
    if n < 0 or not 0 <= discordance <= 1:
        raise ValueError(f"n must be at least 0 and discordance from 0 to 1, got {n} and {discordance}")
    z, z_power = _quantiles(power, alpha)
    under_root = n + z_power**2 - z**2
    if under_root < 0 or n == 0:
        return None
    effect = math.sqrt(discordance) * (z * math.sqrt(n) + z_power * math.sqrt(under_root)) / (n + z_power**2)
    return effect if 0 < effect <= discordance else None


def miller_tasks(
    effect: float,
    omega2: float,
    sigma2_a: float,
    sigma2_b: float,
    k_a: float = 1,
    k_b: float = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """The tasks required to detect a mean difference of ``effect`` with ``k_a`` and ``k_b`` attempts at each task.

    ``(z + z_β)² (omega2 + sigma2_a/k_a + sigma2_b/k_b) / effect²``; round up. ``omega2`` is the variance over tasks of
    the true difference, ``sigma2_a`` and ``sigma2_b`` are the mean variances of attempts at one task
    (``variance_components().within``).

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, equation 9.

    Raises:
        ValueError: ``effect`` is 0, a variance is negative, a number of attempts is below 1, or ``power`` or ``alpha``
            is not between 0 and 1.
    """
    if not (effect and math.isfinite(effect)) or not min(omega2, sigma2_a, sigma2_b) >= 0 or not min(k_a, k_b) >= 1:
        raise ValueError("effect must be nonzero and finite, variances at least 0, and attempts at least 1")
    z, z_power = _quantiles(power, alpha)
    return (z + z_power) ** 2 * (omega2 + sigma2_a / k_a + sigma2_b / k_b) / effect**2


def minimum_detectable_mean(
    se: float | None, power: float = 0.8, alpha: float = 0.05, *, df: int | None = None
) -> float | None:
    """The smallest mean difference that a standard error of ``se`` detects with ``power``: ``(z + z_β) · se``.

    With ``df``, quantiles of t are used, as required with few tasks. ``None`` if the error is unknown or 0, which
    is not informative.

    Source: H. S. Bloom, Minimum detectable effects, Evaluation Review 19 (1995) 547.

    Raises:
        ValueError: ``se`` is negative or not finite, ``df`` is below 1, or ``power`` or ``alpha`` is not between 0 and
            1.
    """
    z, z_power = _quantiles(power, alpha)
    if (se is not None and not 0 <= se < math.inf) or (df is not None and df < 1):
        raise ValueError(f"se must be finite and at least 0, and df at least 1, got {se} and {df}")
    if df is not None:
        z, z_power = -t_quantile(alpha / 2, df), t_quantile(power, df)
    return (z + z_power) * se if se else None


def t_power(effect: float, se: float, df: int, alpha: float = 0.05) -> float:
    """The power of the two-sided t test for a mean difference of ``effect`` with a standard error of ``se``.

    ``P(|T| > t)`` for T with Student's noncentral t distribution with ``df`` and noncentrality ``effect / se``.

    Source: N. L. Johnson and B. L. Welch, Applications of the non-central t-distribution, Biometrika 31 (1940) 362.

    Raises:
        ValueError: ``se`` is not above 0, ``se`` or ``effect`` is not finite, ``df`` is below 1, or ``alpha`` is not
            between 0 and 1.
    """
    check_share("alpha", alpha)
    if not 0 < se < math.inf or not math.isfinite(effect) or df < 1:
        raise ValueError(f"se must be above 0, effect finite, and df at least 1, got {se}, {effect} and {df}")
    from scipy.special import nctdtr

    critical, shift = -t_quantile(alpha / 2, df), abs(effect) / se
    above, below = 1 - float(nctdtr(df, shift, critical)), float(nctdtr(df, shift, -critical))
    # Far from the center nctdtr returns NaN, and the whole probability is on one side.
    above = float(shift > critical) if math.isnan(above) else above
    return min(1.0, above if math.isnan(below) else above + below)


def t_tasks(
    effect: float, variance: float, power: float = 0.8, alpha: float = 0.05, *, at_most: int = 100_000
) -> int | None:
    """The fewest tasks with which the t test detects ``effect`` and a sign-flip test can reach significance.

    ``variance`` is the variance of one task's difference. The result is the smallest n for which ``t_power`` with
    ``se = √(variance / n)`` and n-1 degrees of freedom reaches ``power``, but at least ``sign_flip_tasks``. ``None`` if
    n would exceed ``at_most``.

    Raises:
        ValueError: ``effect`` is 0, ``variance`` is negative, either is not finite, or ``power`` or ``alpha`` is not
            between 0 and 1.
    """
    check_share("power", power)
    if not (effect and math.isfinite(effect)) or not 0 <= variance < math.inf:
        raise ValueError(f"effect must be nonzero and finite, and variance at least 0, got {effect} and {variance}")

    def enough(n: int) -> bool:  # two square roots, since variance / n can underflow to 0
        return not variance or t_power(effect, math.sqrt(variance) / math.sqrt(n), n - 1, alpha) >= power

    high = max(2, sign_flip_tasks(alpha))
    if high > at_most:
        return None
    short = high - 1  # fewer tasks are never enough
    while not enough(high):
        if high == at_most:
            return None
        short, high = high, min(2 * high, at_most)
    while high - short > 1:
        middle = (short + high) // 2
        short, high = (short, middle) if enough(middle) else (middle, high)
    return high


def sign_flip_tasks(alpha: float = 0.05) -> int:
    """The smallest n for which n differences of one sign give a sign-flip p of ``2 / 2ⁿ`` below ``alpha``.

    Raises:
        ValueError: ``alpha`` is not between 0 and 1.
    """
    check_share("alpha", alpha)
    return next(n for n in itertools.count(1) if 2 * 0.5**n < alpha)


def _most_rejected(m: NDArray[np.int64], alpha: float, *, midp: bool) -> NDArray[np.int64]:
    """For each number of discordant pairs, the largest count on the rarer side with p <= alpha; -1 if there is none."""
    import numpy as np

    rejected, accepted = np.full_like(m, -1), (m + 1) // 2
    while np.any(accepted - rejected > 1):
        middle = (rejected + accepted) // 2
        p = binomial_at_most(middle, m, 0.5) + binomial_at_most(middle - 1 if midp else middle, m, 0.5)
        significant = (middle >= 0) & (p <= alpha)
        rejected, accepted = np.where(significant, middle, rejected), np.where(significant, accepted, middle)
    return rejected


def _quantiles(power: float, alpha: float) -> tuple[float, float]:
    check_share("power", power)
    check_share("alpha", alpha)
    return -normal_quantile(alpha / 2), normal_quantile(power)


def _discordance(n: int, p_regress: float, p_improve: float) -> float:
    if n < 0 or not min(p_regress, p_improve) >= 0 or not p_regress + p_improve <= 1 + 1e-12:
        raise ValueError(
            "n and the shares must be at least 0, and the shares must sum to at most 1, "
            f"got {n}, {p_regress} and {p_improve}"
        )
    return min(1.0, p_regress + p_improve)


def _effect(p_regress: float, p_improve: float) -> tuple[float, float]:
    psi = _discordance(0, p_regress, p_improve)
    if p_regress == p_improve:
        raise ValueError("no number of tasks can detect a difference of 0")
    return p_improve - p_regress, psi
