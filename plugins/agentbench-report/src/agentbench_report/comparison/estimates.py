"""How far B is from A, under one assumption on what is missing. Nothing in here reads a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_report.comparison.alignment import Alignment, Missing
from agentbench_report.statistics import (
    Bootstrap,
    Interval,
    MeanEstimate,
    PairTable,
    SignFlip,
    bootstrap_mean,
    exact_power,
    mcnemar_exact,
    mcnemar_midp,
    mean_difference,
    mean_of_means,
    minimum_detectable,
    minimum_detectable_mean,
    sign_flip,
    tango,
)

POWER = 0.8
"""How often a difference should be seen that is there: four times of five."""

Verdict = Literal["better", "worse", "undecided"]
Method = Literal["mcnemar", "means", "bootstrap"]
"""``mcnemar``: pairs of single attempts; ``means``: differences of tasks; ``bootstrap``: these, resampled, too."""

IntervalMethod = Literal["tango", "t", "bca", "identical", "none"]
"""``identical``: no spread to go by, since all tasks differ by the same amount (or there is one task); the bound is for
kinds of tasks that were not seen. ``none``: there is no task, and so no bound."""


@attrs.frozen(kw_only=True)
class Question:
    """How to estimate. ``seed`` is for everything that is drawn at random."""

    method: Method
    confidence: float
    resamples: int
    seed: int

    @property
    def alpha(self) -> float:
        """How often two equal runs may be called different."""
        return round(1 - self.confidence, 12)  # 0.05 rather than 0.05 and a rounding error


@attrs.frozen(kw_only=True)
class Estimate:
    """B minus A. Rates are between 0 and 1, differences of them between -1 and 1, tests two-sided."""

    missing: Missing
    """What was assumed of attempts without a score."""
    tasks: int
    table: PairTable | None
    """``None`` with repeats: attempts at one task are not independent pairs."""
    pass_rate_a: float | None
    """Mean over the tasks, each of which counts the same."""
    pass_rate_b: float | None
    difference: float | None
    interval: Interval
    interval_method: IntervalMethod
    p: float
    p_method: Literal["mcnemar_midp", "sign_flip"]
    verdict: Verdict
    """By ``p``: ``undecided`` unless it is below 1 minus the confidence."""
    mcnemar_midp: float | None
    mcnemar_exact: float | None
    tango: Interval | None
    task_means: MeanEstimate | None
    """The paired t estimate over tasks; ``None`` with the method ``mcnemar``, as is ``sign_flip``."""
    sign_flip: SignFlip | None
    bootstrap: Bootstrap | None
    """Over tasks, with all their attempts in both runs; ``None`` with another method, or without a task."""


@attrs.frozen(kw_only=True)
class Detectable:
    """What a comparison of this size could have seen."""

    difference: float | None
    """The smallest true difference that would be told with ``power``, at the discordance or the spread that was seen.

    ``None``: none that is possible at that discordance would be, or there is no spread to go by.
    """
    at_best: float | None
    """The same if every task that differs went one way, whatever the discordance; ``None`` with repeats, or if none."""
    power: float
    alpha: float
    nonzero: int
    """Tasks on which the runs differ: discordant pairs, or differences that are not 0."""
    least_nonzero: int
    """With fewer of them, even if all go one way, the exact test cannot tell a difference."""


def estimate(aligned: Alignment, question: Question, missing: Missing = Missing.LEFT_OUT) -> Estimate:
    """Compare the pairs of an alignment.

    With the method ``mcnemar`` the interval is Tango's score interval, and McNemar's mid-p decides. Otherwise tasks
    are the sample: the interval is that of t, or BCa, and a test decides that flips the signs of their differences.

    Raises:
        ValueError: the method is ``mcnemar`` and there are repeats.
    """
    differences = aligned.differences(missing)
    table = None if aligned.repeated and question.method != "mcnemar" else aligned.table(missing)
    score = None if table is None else tango(table, question.confidence)
    means = flipped = drawn = None
    how: IntervalMethod
    if question.method == "mcnemar":
        assert table is not None
        assert score is not None
        interval, p = score, mcnemar_midp(table)
        how = "tango" if table.n else "none"
    else:
        means = mean_difference(differences, question.confidence)
        flipped = sign_flip(differences, question.seed, question.resamples)
        if question.method == "bootstrap" and differences:
            drawn = bootstrap_mean(differences, question.seed, question.resamples, question.confidence)
        interval, how = _interval(means, drawn)
        p = flipped.two_sided
    counts = [found for found in (pair.counts(missing) for pair in aligned.pairs) if found]
    mean = means.mean if means is not None else table.difference if table is not None else None
    return Estimate(
        missing=missing,
        tasks=len(differences),
        table=table,
        pass_rate_a=mean_of_means((passed, of) for passed, of, _, _ in counts),
        pass_rate_b=mean_of_means((passed, of) for _, _, passed, of in counts),
        difference=mean,
        interval=interval,
        interval_method=how,
        p=p,
        p_method="mcnemar_midp" if flipped is None else "sign_flip",
        verdict=verdict(mean, p, question.alpha),
        mcnemar_midp=None if table is None else mcnemar_midp(table),
        mcnemar_exact=None if table is None else mcnemar_exact(table),
        tango=score,
        task_means=means,
        sign_flip=flipped,
        bootstrap=drawn,
    )


def bounds(aligned: Alignment, question: Question) -> tuple[Estimate, Estimate] | tuple[None, None]:
    """The worst and the best case for B; ``None`` when nothing is missing.

    Never by bootstrap: that the missing attempts are filled in is far more than the two intervals differ by.
    """
    if not aligned.incomplete:
        return None, None
    question = attrs.evolve(question, method="means" if question.method == "bootstrap" else question.method)
    return estimate(aligned, question, Missing.WORST), estimate(aligned, question, Missing.BEST)


def detectable(found: Estimate, differences: Sequence[float], question: Question) -> Detectable:
    """What a comparison like ``found`` could have seen, at the discordance or the spread that it has."""
    smallest = at_best = None
    if found.table is not None:
        at_best = _one_way(found.table.n, question.alpha)
    if found.table is not None and question.method == "mcnemar":
        smallest = minimum_detectable(found.table.n, found.table.discordance or 0.0, POWER, question.alpha)
    elif found.task_means is not None and found.task_means.se:
        smallest = minimum_detectable_mean(found.task_means.se, POWER, question.alpha, df=found.task_means.df)
    least = 1
    while 2 * 0.5**least >= question.alpha:
        least += 1
    return Detectable(
        difference=smallest if smallest is None or smallest <= 1 else None,
        at_best=at_best,
        power=POWER,
        alpha=question.alpha,
        nonzero=sum(difference != 0 for difference in differences),
        least_nonzero=least,
    )


def _one_way(n: int, alpha: float) -> float | None:
    """The smallest share of tasks that, all improved, gives the mid-p test ``POWER``; to a thousandth of a point."""
    if not n or exact_power(n, 0.0, 1.0, alpha) < POWER:
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if exact_power(n, 0.0, middle, alpha) >= POWER else (middle, high)
    return high


def _interval(means: MeanEstimate, drawn: Bootstrap | None) -> tuple[Interval, IntervalMethod]:
    if means.mean is None:
        return means.interval, "none"
    if means.degenerate:
        return means.interval, "identical"
    return (means.interval, "t") if drawn is None else (drawn.interval, "bca")


def verdict(difference: float | None, p: float, alpha: float) -> Verdict:
    """Which is better, if the test says that they differ."""
    if not difference or p >= alpha:
        return "undecided"
    return "better" if difference > 0 else "worse"
