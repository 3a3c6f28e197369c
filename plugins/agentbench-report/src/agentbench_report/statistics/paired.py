"""Comparisons of two runs on the same tasks with one attempt each. Run A is the baseline, and run B is the new run."""

from __future__ import annotations

import math

import attrs

from agentbench_report.statistics.binomial import clopper_pearson, wilson
from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.numerics import binomial_at_most, falling_root, two_sided_z


def _count(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{attribute.name} must be a non-negative integer, got {value!r}")


@attrs.frozen(kw_only=True)
class PairTable:
    """The number of tasks for each combination of results in A and B.

    Raises:
        ValueError: a count is negative or not an integer.
    """

    both_pass: int = attrs.field(validator=_count)
    regressions: int = attrs.field(validator=_count)
    """The number of tasks that passed in A and failed in B; b in the formulas."""
    improvements: int = attrs.field(validator=_count)
    """The number of tasks that failed in A and passed in B; c in the formulas."""
    both_fail: int = attrs.field(validator=_count)

    @property
    def n(self) -> int:
        """The number of pairs."""
        return self.both_pass + self.regressions + self.improvements + self.both_fail

    @property
    def discordant(self) -> int:
        """The number of discordant pairs; m in the formulas."""
        return self.regressions + self.improvements

    @property
    def difference(self) -> float | None:
        """The pass rate of B minus the pass rate of A, ``(c-b)/n``; ``None`` with no pairs."""
        return (self.improvements - self.regressions) / self.n if self.n else None

    @property
    def discordance(self) -> float | None:
        """The share of discordant pairs, ``(b+c)/n``; ``None`` with no pairs."""
        return self.discordant / self.n if self.n else None


def mcnemar_exact(table: PairTable) -> float:
    """McNemar's exact test of equal pass rates, two-sided: ``min(1, 2 P(X <= min(b, c)))``, X binomial(b+c, 1/2).

    It is 1 with no discordant pairs. The test is conservative: it never exceeds its level but has less power. With
    fewer than 6 discordant pairs, p cannot be below 0.05.

    Source: Q. McNemar, Psychometrika 12 (1947) 153; M. W. Fagerland, S. Lydersen and P. Laake, BMC Medical Research
    Methodology 13 (2013) 91.
    """
    fewer = min(table.regressions, table.improvements)
    return min(1.0, 2 * float(binomial_at_most(fewer, table.discordant, 0.5)))


def mcnemar_midp(table: PairTable) -> float:
    """McNemar's mid-p test, two-sided: the exact p minus the probability of the observed table.

    ``2 P(X <= min(b, c)) - P(X = min(b, c))``, which is ``P(X <= min) + P(X < min)``; for b = c it is
    ``1 - P(X = b)/2``. With no discordant pairs, it is 1, where the formula would give 0.5. The test did not exceed its
    level in any of the 9595 scenarios in the source.

    Source: M. W. Fagerland, S. Lydersen and P. Laake, BMC Medical Research Methodology 13 (2013) 91.
    """
    fewer, m = min(table.regressions, table.improvements), table.discordant
    if m == 0:
        return 1.0
    at_most, below = float(binomial_at_most(fewer, m, 0.5)), float(binomial_at_most(fewer - 1, m, 0.5))
    return 1 - (at_most - below) / 2 if 2 * fewer == m else at_most + below


def mcnemar_asymptotic(table: PairTable) -> tuple[float, float]:
    """McNemar's test without continuity correction: ``(b-c)²/(b+c)`` and its p-value by chi-square with 1 df.

    The result is (0, 1) with no discordant pairs. With few, it slightly exceeds its level, so mid-p is the default.

    Source: Q. McNemar, Psychometrika 12 (1947) 153.
    """
    if table.discordant == 0:
        return 0.0, 1.0
    chi_square = (table.regressions - table.improvements) ** 2 / table.discordant
    return chi_square, math.erfc(math.sqrt(chi_square / 2))


def tango(table: PairTable, confidence: float = 0.95) -> Interval:
    """Tango's score interval for the difference of two paired rates (B minus A): all δ with ``|score(δ)| <= z``.

    It never has zero width: n pairs that all agree give ``± z²/(n + z²)``. With no pairs, it is -1 to 1.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17 (1998) 891.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    b, c, n, z = table.regressions, table.improvements, table.n, two_sided_z(confidence)
    if n == 0:
        return Interval(low=-1.0, high=1.0, confidence=confidence)
    low, high = tango_bounds(b, c, n, z)
    return Interval(low=low, high=high, confidence=confidence)


def tango_bounds(b: float, c: float, n: float, z: float) -> tuple[float, float]:
    """The differences at which Tango's score is ``z`` and ``-z``. The counts need not be integers."""
    low = -falling_root(lambda delta: tango_score(c, b, n, delta) + z, (b - c) / n, 1.0)
    return low, falling_root(lambda delta: tango_score(b, c, n, delta) + z, (c - b) / n, 1.0)


def tango_score(b: float, c: float, n: float, delta: float) -> float:
    """The difference minus ``delta``, in standard errors under the hypothesis that the true difference is ``delta``.

    ::

        (c-b-nδ) / √(n(2q + δ(1-δ))),  q = (√(B²-4AC) - B) / 2A
        A = 2n,  B = -b-c + (2n-c+b)δ,  C = -bδ(1-δ)

    q is the maximum likelihood estimate of the regression rate given δ. The score decreases in δ. Requires
    ``-1 < delta < 1`` and ``n > 0``.
    """
    if delta < 0:
        return -tango_score(c, b, n, -delta)  # equal by symmetry, and C <= 0, so the radicand is not negative
    big_b, big_c = -b - c + (2 * n - c + b) * delta, -b * delta * (1 - delta)
    root = math.sqrt(big_b * big_b - 8 * n * big_c)
    q = (root - big_b) / (4 * n)
    variance = n * (2 * q + delta * (1 - delta))
    return (c - b - n * delta) / math.sqrt(variance) if variance > 0 else 0.0


def newcombe10(table: PairTable, confidence: float = 0.95) -> Interval:
    """Newcombe's paired interval for the difference (B minus A), method 10: combines Wilson's limits of both rates.

    With limits (l, u) of each rate and φ the correlation of the table::

        low  = d - √((p_B-l_B)² - 2φ(p_B-l_B)(u_A-p_A) + (u_A-p_A)²)
        high = d + √((u_B-p_B)² - 2φ(u_B-p_B)(p_A-l_A) + (p_A-l_A)²)
        φ = (ad-bc) / √((a+b)(c+d)(a+c)(b+d))

    where ad-bc above n/2 is reduced by n/2, ad-bc from 0 to n/2 becomes 0, and φ is 0 if a marginal total is 0. (Method
    8 omits this correction.) With no pairs, it is -1 to 1.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 2635.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    a, b, c, d = table.both_pass, table.regressions, table.improvements, table.both_fail
    n, difference = table.n, table.difference
    of_a, of_b = wilson(a + b, n, confidence), wilson(a + c, n, confidence)
    if difference is None:
        return Interval(low=-1.0, high=1.0, confidence=confidence)
    product = float(a * d - b * c)
    if product > 0:
        product = max(0.0, product - n / 2)
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    phi = product / math.sqrt(margins) if margins else 0.0

    def distance(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))

    rate_a, rate_b = (a + b) / n, (a + c) / n
    low = difference - distance(rate_b - of_b.low, of_a.high - rate_a)
    high = difference + distance(of_b.high - rate_b, rate_a - of_a.low)
    return Interval(low=max(-1.0, low), high=min(1.0, high), confidence=confidence)


def discordant_odds_ratio(table: PairTable, confidence: float = 0.95) -> Interval:
    """The exact interval for the ratio of improvements to regressions, c / b.

    ``(L/(1-L), U/(1-U))`` with Clopper and Pearson's limits for ``c/(b+c)``. ``low`` is 0 with no improvements.
    ``high`` is infinite with no regressions, which JSON cannot represent.

    Source: M. W. Fagerland, S. Lydersen and P. Laake, Statistics in Medicine 33 (2014) 2850.

    Raises:
        ValueError: ``confidence`` is not between 0 and 1.
    """
    share = clopper_pearson(table.improvements, table.discordant, confidence)
    high = share.high / (1 - share.high) if share.high < 1 else math.inf
    return Interval(low=share.low / (1 - share.low), high=high, confidence=confidence)
