"""Estimate the difference between two runs, for one treatment of missing attempts. Pure functions."""

from __future__ import annotations

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
    mcnemar_exact,
    mcnemar_midp,
    mean_difference,
    mean_of_means,
    sign_flip,
    tango,
    tango_mean,
)

Verdict = Literal["better", "worse", "undecided"]
Method = Literal["mcnemar", "means", "bootstrap"]
"""``mcnemar``: pairs of single attempts. ``means``: differences of task means. ``bootstrap``: like ``means``,
with an additional bootstrap interval."""

IntervalMethod = Literal["tango", "tango_mean", "identical", "none"]
"""``tango`` for pairs of single attempts, ``tango_mean`` over tasks. ``identical``: all tasks differ by the same amount
(or there is one task), so there is no spread, and the bounds reflect only kinds of tasks that were not sampled.
``none``: there are no tasks, and thus no bounds."""


@attrs.frozen(kw_only=True)
class Question:
    """The settings of an estimate. ``seed`` is used for all random sampling."""

    method: Method
    confidence: float
    resamples: int
    seed: int

    @property
    def alpha(self) -> float:
        """The level of the tests: the maximum probability that equal runs are reported as different."""
        return round(1 - self.confidence, 12)  # avoids the rounding error of 1 - 0.95


@attrs.frozen(kw_only=True)
class Estimate:
    """The estimate of B minus A. Rates are between 0 and 1, differences between -1 and 1. Tests are two-sided."""

    missing: Missing
    """The treatment of attempts without a score."""
    tasks: int
    table: PairTable | None
    """``None`` with repeats: attempts at one task are not independent pairs."""
    pass_rate_a: float | None
    """The mean over tasks, equally weighted."""
    pass_rate_b: float | None
    difference: float | None
    interval: Interval
    interval_method: IntervalMethod
    p: float
    p_method: Literal["mcnemar_midp", "sign_flip"]
    verdict: Verdict
    """``undecided`` unless ``p`` is below 1 - confidence."""
    mcnemar_midp: float | None
    mcnemar_exact: float | None
    tango: Interval | None
    task_means: MeanEstimate | None
    """The paired t estimate over tasks, for reference; ``None`` with the method ``mcnemar``."""
    sign_flip: SignFlip | None
    """``None`` with the method ``mcnemar``."""
    bootstrap: Bootstrap | None
    """Computed by resampling tasks with all their attempts; ``None`` with other methods, or without tasks."""


def estimate(aligned: Alignment, question: Question, missing: Missing = Missing.LEFT_OUT) -> Estimate:
    """Compare the pairs of an alignment.

    With the ``mcnemar`` method, the interval is Tango's score interval, and McNemar's mid-p test decides. Otherwise
    tasks are the sample: the interval is ``tango_mean``, and a sign-flip test on the task differences decides.

    Raises:
        ValueError: the method is ``mcnemar`` and there are repeats.
    """
    differences = aligned.differences(missing)
    table = None if aligned.repeated and question.method != "mcnemar" else aligned.table(missing)
    score = None if table is None else tango(table, question.confidence)
    means = flipped = resampled = None
    interval_method: IntervalMethod
    if question.method == "mcnemar":
        assert table is not None
        assert score is not None
        interval, p = score, mcnemar_midp(table)
        interval_method = "tango" if table.n else "none"
    else:
        means = mean_difference(differences, question.confidence)
        flipped = sign_flip(differences, question.seed, question.resamples)
        if question.method == "bootstrap" and differences:
            resampled = bootstrap_mean(differences, question.seed, question.resamples, question.confidence)
        interval = tango_mean(differences, question.confidence)
        interval_method = "none" if means.mean is None else "identical" if means.degenerate else "tango_mean"
        p = flipped.two_sided
    counts = [pair_counts for pair_counts in (pair.counts(missing) for pair in aligned.pairs) if pair_counts]
    mean = means.mean if means is not None else table.difference if table is not None else None
    return Estimate(
        missing=missing,
        tasks=len(differences),
        table=table,
        pass_rate_a=mean_of_means((passed, total) for passed, total, _, _ in counts),
        pass_rate_b=mean_of_means((passed, total) for _, _, passed, total in counts),
        difference=mean,
        interval=interval,
        interval_method=interval_method,
        p=p,
        p_method="mcnemar_midp" if flipped is None else "sign_flip",
        verdict=verdict(mean, p, question.alpha),
        mcnemar_midp=None if table is None else mcnemar_midp(table),
        mcnemar_exact=None if table is None else mcnemar_exact(table),
        tango=score,
        task_means=means,
        sign_flip=flipped,
        bootstrap=resampled,
    )


def bounds(aligned: Alignment, question: Question) -> tuple[Estimate, Estimate] | tuple[None, None]:
    """The worst and the best case for B; both ``None`` if no attempts are missing.

    The bootstrap is omitted, since its effect is small compared with the effect of missing attempts.
    """
    if not aligned.incomplete:
        return None, None
    question = attrs.evolve(question, method="means" if question.method == "bootstrap" else question.method)
    return estimate(aligned, question, Missing.WORST), estimate(aligned, question, Missing.BEST)


def alternatives(aligned: Alignment, question: Question) -> tuple[Estimate | None, Estimate | None]:
    """An estimate including quarantined tasks and one excluding suspect attempts; each is ``None`` if there are none.

    The bootstrap is omitted, as in :func:`bounds`.
    """
    question = attrs.evolve(question, method="means" if question.method == "bootstrap" else question.method)
    return (
        estimate(aligned.with_quarantined(), question) if aligned.quarantined else None,
        estimate(aligned.without_suspected(), question) if aligned.suspected else None,
    )


def verdict(difference: float | None, p: float, alpha: float) -> Verdict:
    """Whether B is better or worse, or ``undecided`` if the difference is 0, unknown or not significant."""
    if not difference or p >= alpha:
        return "undecided"
    return "better" if difference > 0 else "worse"
