"""Non-inferiority tests: is the new run worse than the baseline by less than a margin?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import lost_and_gained, mean_difference
from agentbench_report.statistics.numerics import normal_below, t_below, two_sided_z
from agentbench_report.statistics.paired import PairTable, tango, tango_bounds, tango_score

Verdict = Literal["pass", "fail", "inconclusive"]


@attrs.frozen(kw_only=True)
class NonInferiority:
    """The result of a non-inferiority test."""

    z: float | None
    """The observed difference minus ``-margin``, in standard errors; ``None`` without a standard error."""
    p: float
    """The one-sided p-value for a difference of ``-margin`` or less; 1 if ``z`` is ``None``."""
    interval: Interval
    """The interval of the difference at confidence ``1 - 2 alpha``. Each end is a one-sided bound at ``alpha``."""
    verdict: Verdict
    """``pass``: the whole interval is above ``-margin``. ``fail``: it is not, and the whole interval is below 0,
    so the new run is worse. ``inconclusive``: neither; more tasks are needed."""


def noninferiority(table: PairTable, margin: float, alpha: float = 0.05) -> NonInferiority:
    """Test that B's pass rate is less than ``margin`` (a rate: 0.02 is 2 pp) below A's, with one attempt per task.

    ``z = score(-margin)``, ``p = 1 - Φ(z)``, with Tango's interval. ``p < alpha`` exactly if the lower end of the
    interval is above ``-margin``. If all pairs agree, the test passes with at least about ``z²(1-margin)/margin`` tasks
    (52 at 0.05, 133 at 0.02, with alpha 0.05). With no pairs, p is 1 and the verdict is inconclusive.

    Source: T. Tango, Statistics in Medicine 17 (1998) 891; J.-m. Nam, Biometrics 53 (1997) 1422.

    Raises:
        ValueError: ``margin`` is negative or not below 1, or ``alpha`` is not between 0 and 0.5.
    """
    _check(margin, alpha)
    interval = tango(table, 1 - 2 * alpha)
    if table.n == 0:
        return NonInferiority(z=None, p=1.0, interval=interval, verdict="inconclusive")
    z = tango_score(table.regressions, table.improvements, table.n, -margin)
    return NonInferiority(z=z, p=normal_below(-z), interval=interval, verdict=_verdict(interval, margin))


def noninferiority_mean(differences: Sequence[float], margin: float, alpha: float = 0.05) -> NonInferiority:
    """The ``noninferiority`` test for several attempts per task, given each task's ``rate in B - rate in A``.

    Two tests must pass. One is the t(n-1) test over tasks. It relies on the observed spread: if the loss is due to a
    few tasks that fail in every attempt, it passes a candidate that is worse by the margin more than twice as often as
    ``alpha``. The other is Tango's score test of the summed losses and gains, ``b`` and ``c``, which need not be
    integers. For differences of -1, 0 and 1 it equals ``noninferiority`` of the same table. Identical attempts at a
    task therefore count as one, and more attempts at the same n tasks cannot show more than n tasks that all agree.

    The interval is the hull of both, p the larger p-value and ``z`` its statistic, ``(d̄ + margin) / se`` or
    ``score(-margin)``. ``p < alpha`` exactly if the verdict is a pass. With fewer than two tasks, ``z`` is ``None`` and
    p is 1.

    Source: as ``mean_difference`` and ``noninferiority``.

    Raises:
        ValueError: a difference is outside -1 to 1, or as for ``noninferiority``.
    """
    _check(margin, alpha)
    estimate, n = mean_difference(differences, 1 - 2 * alpha), len(differences)
    if estimate.mean is None or estimate.se is None:
        return NonInferiority(z=None, p=1.0, interval=estimate.interval, verdict="inconclusive")
    lost, gained = lost_and_gained(differences)
    low, high = tango_bounds(lost, gained, n, two_sided_z(1 - 2 * alpha))
    if estimate.se:  # without spread the t test is undefined, and its interval is within Tango's
        low, high = min(low, estimate.interval.low), max(high, estimate.interval.high)
    interval = Interval(low=low, high=high, confidence=estimate.interval.confidence)
    z = tango_score(lost, gained, n, -margin)
    p = normal_below(-z)
    if estimate.se:
        t = (estimate.mean + margin) / estimate.se
        p_t = t_below(-t, estimate.df)
        z, p = (t, p_t) if p_t > p else (z, p)
    return NonInferiority(z=z, p=p, interval=interval, verdict=_verdict(interval, margin))


def _check(margin: float, alpha: float) -> None:
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be at least 0 and below 1, got {margin}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must be between 0 and 0.5, got {alpha}")


def _verdict(interval: Interval, margin: float) -> Verdict:
    if interval.low > -margin:
        return "pass"
    return "fail" if interval.high < 0 else "inconclusive"
