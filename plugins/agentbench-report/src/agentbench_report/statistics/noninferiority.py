"""Is the new run not worse than the base by more than a margin? That it is not proven worse is no answer."""

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
    """The answer to one question about a margin."""

    z: float | None
    """Standard errors between the difference that was seen and minus the margin; ``None`` where there is no error."""
    p: float
    """One-sided, for a difference of minus the margin or worse; 1 where there is nothing to tell it from."""
    interval: Interval
    """Of the difference, at confidence ``1 - 2 alpha``: either end is a bound at level ``alpha``."""
    verdict: Verdict
    """``pass``: all of the interval is above minus the margin. ``fail``: it is not, and all of it is below 0, so that
    the new run is proven worse. ``inconclusive``: neither; more tasks are needed."""


def noninferiority(table: PairTable, margin: float, alpha: float = 0.05) -> NonInferiority:
    """Test that B's pass rate is not below A's by ``margin`` (a rate: 0.02 is two points) or more; one attempt a task.

    ``z = score(-margin)``, ``p = 1 - Φ(z)``, the interval is Tango's. ``p < alpha`` just where the interval's low end
    is above ``-margin``. Pairs that all agree pass from about ``z²(1-margin)/margin`` tasks on (52 at 0.05, 133 at
    0.02, with alpha 0.05). Without a pair: p is 1, inconclusive.

    Source: T. Tango, Statistics in Medicine 17 (1998) 891; J.-m. Nam, Biometrics 53 (1997) 1422.

    Raises:
        ValueError: ``margin`` is not from 0 to below 1, or ``alpha`` not between 0 and 0.5.
    """
    _check(margin, alpha)
    interval = tango(table, 1 - 2 * alpha)
    if table.n == 0:
        return NonInferiority(z=None, p=1.0, interval=interval, verdict="inconclusive")
    z = tango_score(table.regressions, table.improvements, table.n, -margin)
    return NonInferiority(z=z, p=normal_below(-z), interval=interval, verdict=_verdict(interval, margin))


def noninferiority_mean(differences: Sequence[float], margin: float, alpha: float = 0.05) -> NonInferiority:
    """The same for tasks with several attempts, from ``rate in B - rate in A`` of each task: two tests must both pass.

    One is t(n-1) over tasks. It alone trusts the spread that was seen: where a loss is few tasks that fail each time,
    it passes what is worse by the margin more than twice as often as ``alpha`` says. The other is Tango's score test of
    the summed losses and gains, ``b`` and ``c``, which need not be whole numbers. For differences of -1, 0 and 1 it is
    ``noninferiority`` of the same table, so that attempts which repeat each other show no more than one does; and
    however often few tasks are tried, they show no more than as many tasks that all agree would.

    The interval is the outer hull of both, p the larger one and ``z`` its statistic, ``(d̄ + margin) / se`` or
    ``score(-margin)``: ``p < alpha`` just where the verdict is a pass. Fewer than two tasks: ``z`` is ``None``, p is 1.

    Source: as ``mean_difference`` and ``noninferiority``.

    Raises:
        ValueError: a difference is outside -1 to 1, or as ``noninferiority``.
    """
    _check(margin, alpha)
    found, n = mean_difference(differences, 1 - 2 * alpha), len(differences)
    if found.mean is None or found.se is None:
        return NonInferiority(z=None, p=1.0, interval=found.interval, verdict="inconclusive")
    lost, gained = lost_and_gained(differences)
    low, high = tango_bounds(lost, gained, n, two_sided_z(1 - 2 * alpha))
    if found.se:  # without a spread the t test has no answer, and its interval is within the other
        low, high = min(low, found.interval.low), max(high, found.interval.high)
    interval = Interval(low=low, high=high, confidence=found.interval.confidence)
    z = tango_score(lost, gained, n, -margin)
    p = normal_below(-z)
    if found.se:
        t = (found.mean + margin) / found.se
        p_t = t_below(-t, found.df)
        z, p = (t, p_t) if p_t > p else (z, p)
    return NonInferiority(z=z, p=p, interval=interval, verdict=_verdict(interval, margin))


def _check(margin: float, alpha: float) -> None:
    if not 0 <= margin < 1:
        raise ValueError(f"a margin is a difference of rates from 0 to below 1, not {margin}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not be {alpha}")


def _verdict(interval: Interval, margin: float) -> Verdict:
    if interval.low > -margin:
        return "pass"
    return "fail" if interval.high < 0 else "inconclusive"
