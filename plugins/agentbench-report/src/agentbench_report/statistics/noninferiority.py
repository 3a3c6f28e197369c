"""Is the new run not worse than the base by more than a margin? That it is not proven worse is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_report.statistics.interval import Interval
from agentbench_report.statistics.means import mean_difference, unseen_bounds
from agentbench_report.statistics.numerics import normal_below, t_below
from agentbench_report.statistics.paired import PairTable, tango, tango_score

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
    """The same for tasks with several attempts, from ``rate in B - rate in A`` of each task; by t(n-1) over tasks.

    ``z`` is the t statistic ``(d̄ + margin) / se`` and p its tail. The interval is the t interval, widened to
    ``unseen_bounds``: however often few tasks are tried again, they cannot show more than as many tasks that all agree
    would. The verdict is by the interval, and p can be below ``alpha`` without a pass.
    Without an error (all differences equal, or fewer than two tasks) ``z`` is ``None`` and p is 1.

    Source: as ``mean_difference``; the bound for few tasks is Tango's interval without a differing pair.

    Raises:
        ValueError: a difference is outside -1 to 1, or as ``noninferiority``.
    """
    _check(margin, alpha)
    found = mean_difference(differences, 1 - 2 * alpha)
    if found.mean is None or found.se is None:
        return NonInferiority(z=None, p=1.0, interval=found.interval, verdict="inconclusive")
    low, high = unseen_bounds(found.mean, len(differences), found.interval.confidence)
    interval = attrs.evolve(found.interval, low=min(low, found.interval.low), high=max(high, found.interval.high))
    verdict = _verdict(interval, margin)
    if found.se == 0:
        return NonInferiority(z=None, p=1.0, interval=interval, verdict=verdict)
    t = (found.mean + margin) / found.se
    return NonInferiority(z=t, p=t_below(-t, found.df), interval=interval, verdict=verdict)


def _check(margin: float, alpha: float) -> None:
    if not 0 <= margin < 1:
        raise ValueError(f"a margin is a difference of rates from 0 to below 1, not {margin}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not be {alpha}")


def _verdict(interval: Interval, margin: float) -> Verdict:
    if interval.low > -margin:
        return "pass"
    return "fail" if interval.high < 0 else "inconclusive"
