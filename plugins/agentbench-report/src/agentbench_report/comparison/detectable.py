"""The minimum detectable effect of a comparison, for the test that decides its verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.estimates import Estimate, Question
from agentbench_report.statistics import exact_power, minimum_detectable, minimum_detectable_mean

POWER = 0.8
"""The power at which a difference counts as detectable."""

_SHARE_OF_ALPHA = 5
"""The smallest possible p of sampled sign flips must be at most the test level divided by this number."""


@attrs.frozen(kw_only=True)
class DetectableEffect:
    """The effect that a comparison of this size can detect."""

    difference: float | None
    """The smallest true difference that is detected with ``power`` at the observed discordance or spread.

    With repeats, it is a t approximation that is slightly too small if fewer than about ten tasks differ. ``None`` if
    no possible difference is detectable, there is no spread, or fewer than ``least_nonzero`` tasks differ.
    """
    at_best: float | None
    """The smallest detectable difference if all discordant tasks change in the same direction, whatever their number;
    ``None`` with repeats, or if there is none."""
    power: float
    alpha: float
    nonzero: int
    """The number of tasks on which the runs differ: discordant pairs, or differences other than 0."""
    least_nonzero: int
    """The fewest differing tasks, all in the same direction, that make the verdict's test significant."""


def detectable(main: Estimate, differences: Sequence[float], question: Question) -> DetectableEffect:
    """The minimum detectable effect at the discordance or spread of the estimate ``main``."""
    midp, alpha = main.p_method == "mcnemar_midp", question.alpha
    nonzero, least = sum(difference != 0 for difference in differences), _least(alpha, midp=midp)
    smallest = at_best = None
    if main.table is not None:
        at_best = _one_way(main.table.n, alpha, midp=midp)
    if nonzero < least:
        pass
    elif main.table is not None and midp:
        smallest = minimum_detectable(main.table.n, main.table.discordance or 0.0, POWER, alpha)
    elif main.table is not None:
        smallest = _at_discordance(main.table.n, main.table.discordance or 0.0, alpha)
    elif main.task_means is not None and main.task_means.se:
        smallest = minimum_detectable_mean(main.task_means.se, POWER, alpha, df=main.task_means.df)
    return DetectableEffect(
        difference=smallest if smallest is None or smallest <= 1 else None,
        at_best=at_best,
        power=POWER,
        alpha=alpha,
        nonzero=nonzero,
        least_nonzero=least,
    )


def require_resamples(estimates: Sequence[Estimate | None], question: Question) -> None:
    """Require enough sampled sign flips for p-values well below the test level.

    Raises:
        InputError: sign flips were sampled, and ``1 / (1 + resamples)`` is above a fifth of ``question.alpha``.
    """
    sampled = any(estimate and estimate.sign_flip and not estimate.sign_flip.exact for estimate in estimates)
    least = math.ceil(round(_SHARE_OF_ALPHA / question.alpha, 6)) - 1
    if sampled and question.resamples < least:
        raise InputError(
            f"with {question.resamples} resamples, the smallest possible p-value of the sign-flip test is "
            f"{1 / (1 + question.resamples):.2g}, which is too large for the test level {question.alpha:.2g}",
            remedy=f"Use --resamples {least} or more.",
        )


def _least(alpha: float, *, midp: bool) -> int:
    """The fewest tasks, all differing in the same direction, with a p of ``(1 or 2) / 2ⁿ`` below ``alpha``."""
    least = 1
    while (1 if midp else 2) * 0.5**least >= alpha:
        least += 1
    return least


def _one_way(n: int, alpha: float, *, midp: bool) -> float | None:
    """The smallest share of tasks that gives the test ``POWER`` if all of them improve, to 0.001 pp."""
    below = _below(alpha)
    return _smallest(1.0, lambda share: exact_power(n, 0.0, share, below, midp=midp)) if n else None


def _at_discordance(n: int, discordance: float, alpha: float) -> float | None:
    """The smallest difference that gives the exact test ``POWER`` if the share ``discordance`` of tasks differs."""
    below = _below(alpha)

    def power(effect: float) -> float:
        return exact_power(n, (discordance - effect) / 2, (discordance + effect) / 2, below, midp=False)

    return _smallest(discordance, power)


def _below(alpha: float) -> float:
    """A level just below alpha, since a p equal to the level is significant in ``exact_power`` but not in a verdict."""
    return alpha * (1 - 1e-9)


def _smallest(most: float, power: Callable[[float], float]) -> float | None:
    """The effect at which a monotonic power function reaches ``POWER``; ``None`` if it is above ``most``."""
    if power(most) < POWER:
        return None
    low, high = 0.0, most
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
