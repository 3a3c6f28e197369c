"""What a comparison could have seen: by the test that decides it, since another one's figure is another test's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.estimates import Estimate, Question
from agentbench_report.statistics import exact_power, minimum_detectable, minimum_detectable_mean

POWER = 0.8
"""How often a difference should be seen that is there: four times of five."""

_SHARE_OF_ALPHA = 5
"""The smallest p that drawn flips can give must be this many times smaller than the level of the test."""


@attrs.frozen(kw_only=True)
class Detectable:
    """What a comparison of this size could have seen."""

    difference: float | None
    """The smallest true difference that would be told with ``power``, at the discordance or the spread that was seen.

    With repeats an approximation by t, a little too small with fewer than some ten tasks that differ. ``None``: none
    that is possible at that discordance would be, there is no spread to go by, or fewer than ``least_nonzero`` differ.
    """
    at_best: float | None
    """The same if every task that differs went one way, whatever the discordance; ``None`` with repeats, or if none."""
    power: float
    alpha: float
    nonzero: int
    """Tasks on which the runs differ: discordant pairs, or differences that are not 0."""
    least_nonzero: int
    """With fewer of them, even if all go one way, the test that decides cannot tell a difference."""


def detectable(found: Estimate, differences: Sequence[float], question: Question) -> Detectable:
    """What a comparison like ``found`` could have seen, at the discordance or the spread that it has."""
    midp, alpha = found.p_method == "mcnemar_midp", question.alpha
    nonzero, least = sum(difference != 0 for difference in differences), _least(alpha, midp=midp)
    smallest = at_best = None
    if found.table is not None:
        at_best = _one_way(found.table.n, alpha, midp=midp)
    if nonzero < least:
        pass
    elif found.table is not None and midp:
        smallest = minimum_detectable(found.table.n, found.table.discordance or 0.0, POWER, alpha)
    elif found.table is not None:
        smallest = _at_discordance(found.table.n, found.table.discordance or 0.0, alpha)
    elif found.task_means is not None and found.task_means.se:
        smallest = minimum_detectable_mean(found.task_means.se, POWER, alpha, df=found.task_means.df)
    return Detectable(
        difference=smallest if smallest is None or smallest <= 1 else None,
        at_best=at_best,
        power=POWER,
        alpha=alpha,
        nonzero=nonzero,
        least_nonzero=least,
    )


def require_resamples(found: Sequence[Estimate | None], question: Question) -> None:
    """Refuse flips that are drawn so few times that hardly a p, or none, would be below the level of the test.

    Raises:
        InputError: flips were drawn, and ``1 / (1 + resamples)`` is above a fifth of ``question.alpha``.
    """
    drawn = any(one and one.sign_flip and not one.sign_flip.exact for one in found)
    least = math.ceil(round(_SHARE_OF_ALPHA / question.alpha, 6)) - 1
    if drawn and question.resamples < least:
        raise InputError(
            f"with {question.resamples} resamples no sign-flip test has a p below {1 / (1 + question.resamples):.2g}: "
            f"too coarse to be held against {question.alpha:.2g}",
            remedy=f"Give --resamples {least} or more.",
        )


def _least(alpha: float, *, midp: bool) -> int:
    """The fewest tasks that, all differing one way, give a p below ``alpha``: it is ``(1 or 2) / 2ⁿ``."""
    least = 1
    while (1 if midp else 2) * 0.5**least >= alpha:
        least += 1
    return least


def _one_way(n: int, alpha: float, *, midp: bool) -> float | None:
    """The smallest share of tasks that, all improved, gives the test ``POWER``; to a thousandth of a point."""
    below = _below(alpha)
    return _smallest(1.0, lambda share: exact_power(n, 0.0, share, below, midp=midp)) if n else None


def _at_discordance(n: int, discordance: float, alpha: float) -> float | None:
    """The smallest difference that gives the exact test ``POWER`` where the share ``discordance`` of tasks differs."""
    below = _below(alpha)

    def power(effect: float) -> float:
        return exact_power(n, (discordance - effect) / 2, (discordance + effect) / 2, below, midp=False)

    return _smallest(discordance, power)


def _below(alpha: float) -> float:
    """``exact_power`` counts a p that equals alpha, a verdict does not."""
    return alpha * (1 - 1e-9)


def _smallest(most: float, power: Callable[[float], float]) -> float | None:
    """Where a power that grows with the effect reaches ``POWER``; ``None`` when it does not up to ``most``."""
    if power(most) < POWER:
        return None
    low, high = 0.0, most
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
