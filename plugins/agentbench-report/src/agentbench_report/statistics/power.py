"""How many tasks it takes to see a difference, and which difference so many tasks could have shown.

``p_regress`` and ``p_improve`` are the expected shares of tasks that only A and only B passes: their difference is the
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
    """Tasks that McNemar's test needs, one attempt each: ``[z√ψ + z_β√(ψ-Δ²)]² / Δ²``; round up.

    Source: R. J. Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics 43
    (1987) 207.

    Raises:
        ValueError: the shares are no shares, or equal: no number of tasks shows a difference of 0. ``power`` or
            ``alpha`` is not between 0 and 1.
    """
    effect, psi = _effect(p_regress, p_improve)
    z, z_power = _quantiles(power, alpha)
    root = (z * math.sqrt(psi) + z_power * math.sqrt(max(0.0, psi - effect**2))) / effect
    return root * root  # infinity, and no error, for the least of effects


def miettinen_tasks(p_regress: float, p_improve: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The same by Miettinen: ``[zψ + z_β√(ψ² - Δ²(3+ψ)/4)]² / (ψΔ²)``, a little fewer; round up.

    Source: O. S. Miettinen, The matched pairs design in the case of all-or-none responses, Biometrics 24 (1968) 339.

    Raises:
        ValueError: as ``connor_tasks``.
    """
    effect, psi = _effect(p_regress, p_improve)
    z, z_power = _quantiles(power, alpha)
    spread = math.sqrt(max(0.0, psi**2 - effect**2 * (3 + psi) / 4))
    return (z * psi + z_power * spread) ** 2 / (psi * effect**2)


def connor_power(n: int, p_regress: float, p_improve: float, alpha: float = 0.05) -> float:
    """The chance that McNemar's test sees the effect with ``n`` tasks: ``Φ((|Δ|√n - z√ψ) / √(ψ-Δ²))``.

    Right for the asymptotic and nearly so for the mid-p test; too good for the exact one.

    Source: as ``connor_tasks``, solved for the power.

    Raises:
        ValueError: ``n`` is negative, the shares are no shares, or ``alpha`` is not between 0 and 1.
    """
    psi = _discordance(n, p_regress, p_improve)
    check_share("alpha", alpha)
    effect = abs(p_improve - p_regress)
    if effect == 0 or n == 0:
        return 0.0
    over, spread = effect * math.sqrt(n) + normal_quantile(alpha / 2) * math.sqrt(psi), math.sqrt(psi - effect**2)
    return normal_below(over / spread) if spread > 0 else float(over > 0)


def exact_power(n: int, p_regress: float, p_improve: float, alpha: float = 0.05, *, midp: bool = True) -> float:
    """The chance that McNemar's mid-p (or exact) test has p <= ``alpha`` with ``n`` tasks, by counting every outcome.

    ``Σ_m P(m of n tasks differ) · P(p <= alpha | m)``, m binomial with rate ψ and the improvements among them with
    rate ``p_improve / ψ``.

    Source: enumeration of the test's definition; see ``mcnemar_midp``, ``mcnemar_exact``.

    Raises:
        ValueError: ``n`` is negative, the shares are no shares, or ``alpha`` is not between 0 and 1.
    """
    import numpy as np

    psi = _discordance(n, p_regress, p_improve)
    check_share("alpha", alpha)
    if psi == 0:
        return 0.0
    middle, reach = n * psi, 9 * math.sqrt(n * psi * (1 - psi)) + 12  # what is further off has no weight in a float
    m = np.arange(max(0, math.floor(middle - reach)), min(n, math.ceil(middle + reach)) + 1)
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
    """A number of tasks with which ``exact_power`` reaches ``power`` while it does not with one less, by bisection.

    ``None`` when it would be more than ``at_most``.

    Raises:
        ValueError: as ``connor_tasks``.
    """
    found = connor_tasks(p_regress, p_improve, power, alpha)
    guess = max(1, math.ceil(min(found, at_most)))

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
    """The least difference of rates that ``n`` tasks, of which the share ``discordance`` differs, show with ``power``.

    Where ``connor_power`` is ``power``::

        √ψ (z√n + z_β√(n + z_β² - z²)) / (n + z_β²)

    ``None`` when no difference does: it cannot be greater than ψ.

    Source: as ``connor_tasks``, solved for Δ.

    Raises:
        ValueError: ``n`` is negative, ``discordance`` not from 0 to 1, or ``power`` or ``alpha`` not between 0 and 1.
    """
    if n < 0 or not 0 <= discordance <= 1:
        raise ValueError(f"no difference to detect with {n} tasks at discordance {discordance}")
    z, z_power = _quantiles(power, alpha)
    under_root = n + z_power**2 - z**2
    if under_root < 0 or n == 0:
        return None
    found = math.sqrt(discordance) * (z * math.sqrt(n) + z_power * math.sqrt(under_root)) / (n + z_power**2)
    return found if 0 < found <= discordance else None


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
    """Tasks for seeing a mean difference of ``effect`` with ``k_a`` and ``k_b`` attempts at each task.

    ``(z + z_β)² (omega2 + sigma2_a/k_a + sigma2_b/k_b) / effect²``; round up. ``omega2`` is the variance over tasks of
    the true difference, ``sigma2_a`` and ``sigma2_b`` are the mean variances of attempts at one task
    (``variance_components().within``).

    Source: E. Miller, Adding error bars to evals, arXiv 2411.00640, equation 9.

    Raises:
        ValueError: ``effect`` is 0, a variance negative, or attempts fewer than 1; ``power`` or ``alpha`` is not
            between 0 and 1.
    """
    if not (effect and math.isfinite(effect)) or not min(omega2, sigma2_a, sigma2_b) >= 0 or not min(k_a, k_b) >= 1:
        raise ValueError("takes an effect other than 0, variances of at least 0 and at least 1 attempt at each task")
    z, z_power = _quantiles(power, alpha)
    return (z + z_power) ** 2 * (omega2 + sigma2_a / k_a + sigma2_b / k_b) / effect**2


def minimum_detectable_mean(
    se: float | None, power: float = 0.8, alpha: float = 0.05, *, df: int | None = None
) -> float | None:
    """The least mean difference that a standard error of ``se`` shows with ``power``: ``(z + z_β) · se``.

    With ``df`` the quantiles are of t, as few tasks ask for. ``None`` when the error is not known or 0, which says
    nothing of what could have been seen.

    Source: H. S. Bloom, Minimum detectable effects, Evaluation Review 19 (1995) 547.

    Raises:
        ValueError: ``se`` is negative or not finite, or ``df`` below 1; ``power`` or ``alpha`` is not between 0 and 1.
    """
    z, z_power = _quantiles(power, alpha)
    if (se is not None and not 0 <= se < math.inf) or (df is not None and df < 1):
        raise ValueError(f"no difference to detect with a standard error of {se} at {df} degrees of freedom")
    if df is not None:
        z, z_power = -t_quantile(alpha / 2, df), t_quantile(power, df)
    return (z + z_power) * se if se else None


def t_power(effect: float, se: float, df: int, alpha: float = 0.05) -> float:
    """The chance that the two-sided t test sees a mean difference of ``effect`` with a standard error of ``se``.

    ``P(|T| > t)`` for T of Student's noncentral t with ``df`` and noncentrality ``effect / se``.

    Source: N. L. Johnson and B. L. Welch, Applications of the non-central t-distribution, Biometrika 31 (1940) 362.

    Raises:
        ValueError: ``se`` is not above 0, a number not finite, ``df`` below 1, or ``alpha`` not between 0 and 1.
    """
    check_share("alpha", alpha)
    if not 0 < se < math.inf or not math.isfinite(effect) or df < 1:
        raise ValueError(f"no power for an effect of {effect} with an error of {se} at {df} degrees of freedom")
    from scipy.special import nctdtr

    least, shift = -t_quantile(alpha / 2, df), abs(effect) / se
    seen, missed = 1 - float(nctdtr(df, shift, least)), float(nctdtr(df, shift, -least))
    # Far from the middle the function has no answer: then all lies on one side.
    seen = float(shift > least) if math.isnan(seen) else seen
    return min(1.0, seen if math.isnan(missed) else seen + missed)


def t_tasks(
    effect: float, variance: float, power: float = 0.8, alpha: float = 0.05, *, at_most: int = 100_000
) -> int | None:
    """The fewest tasks of which the t test sees a mean difference of ``effect``, and that a sign-flip test can tell.

    ``variance`` is that of a task's difference. Where ``t_power`` with ``se = √(variance / n)`` and n-1 degrees of
    freedom reaches ``power``, but not fewer than ``sign_flip_tasks``. ``None`` when it would be more than ``at_most``.

    Raises:
        ValueError: ``effect`` is 0, ``variance`` negative, or either not finite; ``power`` or ``alpha`` is no share.
    """
    check_share("power", power)
    if not (effect and math.isfinite(effect)) or not 0 <= variance < math.inf:
        raise ValueError(f"no tasks for an effect of {effect} at a variance of {variance}")

    def enough(n: int) -> bool:  # a root of each: the quotient of the smallest variance would be 0
        return not variance or t_power(effect, math.sqrt(variance) / math.sqrt(n), n - 1, alpha) >= power

    high = max(2, sign_flip_tasks(alpha))
    if high > at_most:
        return None
    short = high - 1  # fewer are none
    while not enough(high):
        if high == at_most:
            return None
        short, high = high, min(2 * high, at_most)
    while high - short > 1:
        middle = (short + high) // 2
        short, high = (short, middle) if enough(middle) else (middle, high)
    return high


def sign_flip_tasks(alpha: float = 0.05) -> int:
    """The fewest differences that, all of one sign, give a sign-flip test a p below ``alpha``: it is ``2 / 2ⁿ``.

    Raises:
        ValueError: ``alpha`` is not between 0 and 1.
    """
    check_share("alpha", alpha)
    return next(n for n in itertools.count(1) if 2 * 0.5**n < alpha)


def _most_rejected(m: NDArray[np.int64], alpha: float, *, midp: bool) -> NDArray[np.int64]:
    """For each number of pairs that differ, the most on the rarer side with p <= alpha; -1 if not even 0."""
    import numpy as np

    rejected, accepted = np.full_like(m, -1), (m + 1) // 2
    while np.any(accepted - rejected > 1):
        middle = (rejected + accepted) // 2
        p = binomial_at_most(middle, m, 0.5) + binomial_at_most(middle - 1 if midp else middle, m, 0.5)
        holds = (middle >= 0) & (p <= alpha)
        rejected, accepted = np.where(holds, middle, rejected), np.where(holds, accepted, middle)
    return rejected


def _quantiles(power: float, alpha: float) -> tuple[float, float]:
    check_share("power", power)
    check_share("alpha", alpha)
    return -normal_quantile(alpha / 2), normal_quantile(power)


def _discordance(n: int, p_regress: float, p_improve: float) -> float:
    if n < 0 or not min(p_regress, p_improve) >= 0 or not p_regress + p_improve <= 1 + 1e-12:
        raise ValueError(f"{n} tasks of which shares {p_regress} and {p_improve} differ do not exist")
    return min(1.0, p_regress + p_improve)


def _effect(p_regress: float, p_improve: float) -> tuple[float, float]:
    psi = _discordance(0, p_regress, p_improve)
    if p_regress == p_improve:
        raise ValueError("no number of tasks shows a difference of 0")
    return p_improve - p_regress, psi
