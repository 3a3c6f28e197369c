"""How far B is from A, under one assumption on what is missing. Nothing in here reads a file."""

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
"""``mcnemar``: pairs of single attempts; ``means``: differences of tasks; ``bootstrap``: these, and the bootstrap's
interval beside the one that is told."""

IntervalMethod = Literal["tango", "tango_mean", "identical", "none"]
"""``tango`` for pairs of single attempts, ``tango_mean`` over tasks. ``identical``: no spread to go by, since all tasks
differ by the same amount (or there is one task); the bound is for kinds of tasks that were not seen. ``none``: there is
no task, and so no bound."""


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
    """The paired t estimate over tasks, beside the interval that is told; ``None`` with the method ``mcnemar``, as is
    ``sign_flip``."""
    sign_flip: SignFlip | None
    bootstrap: Bootstrap | None
    """The same by resampling tasks with all their attempts; ``None`` with another method, or without a task."""


def estimate(aligned: Alignment, question: Question, missing: Missing = Missing.LEFT_OUT) -> Estimate:
    """Compare the pairs of an alignment.

    With the method ``mcnemar`` the interval is Tango's score interval, and McNemar's mid-p decides. Otherwise tasks
    are the sample: the interval is ``tango_mean``, and a test decides that flips the signs of their differences.

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
        interval = tango_mean(differences, question.confidence)
        how = "none" if means.mean is None else "identical" if means.degenerate else "tango_mean"
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


def beside(aligned: Alignment, question: Question) -> tuple[Estimate | None, Estimate | None]:
    """With what is quarantined, and without what is suspected; ``None`` where there is nothing of the kind.

    Never by bootstrap, as ``bounds``.
    """
    question = attrs.evolve(question, method="means" if question.method == "bootstrap" else question.method)
    return (
        estimate(aligned.with_quarantined(), question) if aligned.quarantined else None,
        estimate(aligned.without_suspected(), question) if aligned.suspected else None,
    )


def verdict(difference: float | None, p: float, alpha: float) -> Verdict:
    """Which is better, if the test says that they differ."""
    if not difference or p >= alpha:
        return "undecided"
    return "better" if difference > 0 else "worse"
