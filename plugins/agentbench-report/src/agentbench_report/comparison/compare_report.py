"""What a comparison of many runs says, as values."""

from __future__ import annotations

import attrs

from agentbench_report.comparison.aside import QuarantinedTask
from agentbench_report.comparison.comparable import Refusal
from agentbench_report.comparison.detectable import Detectable
from agentbench_report.comparison.estimates import Estimate, Verdict
from agentbench_report.comparison.paired_report import Side


@attrs.frozen(kw_only=True)
class Against:
    """One run held against the baseline. Differences are this run minus the baseline."""

    verdict: Verdict
    """By ``p_holm``."""
    robust: bool
    """The verdict is the same whatever the missing attempts would have been, the other runs being as they are."""
    about_missing: str
    """What they could change, in words, p being adjusted; empty when nothing is missing."""
    about_aside: str
    """The same of quarantined tasks and suspected attempts."""
    estimate: Estimate
    worst: Estimate | None
    """As if what is missing had gone against this run; ``None`` when nothing is missing."""
    best: Estimate | None
    with_quarantined: Estimate | None
    """With the quarantined tasks that all runs have; ``None`` without any."""
    without_suspected: Estimate | None
    """As if suspected attempts had no score; ``None`` without any."""
    suspected: int
    """Scored attempts of either that may have attacked their verdict or seen what they must not."""
    p_holm: float
    """The p of the estimate, made larger because several runs are held against one baseline (Holm)."""
    detectable: Detectable
    """At the level that is left for one of several comparisons: 1 minus the confidence, by their number."""
    complete_pairs: int
    incomplete: int
    """Tasks in which an attempt of either run has no score."""
    invalid: tuple[str, ...]
    """Tasks that all attempts of both runs found to be none, by their names in the baseline; they count nowhere."""
    same_variant: bool
    same_terms: bool
    """Nothing else is known to differ either: then what differs between two runs of one variant is noise."""
    overridden: tuple[Refusal, ...]
    warnings: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Compared:
    """One of the runs."""

    label: str
    """The variant; numbered where several runs are of one name."""
    side: Side
    """Over the tasks that all runs have; its pass rate over those that have a score in every run."""
    cost_per_pass_usd: float | None
    against: Against | None
    """``None`` for the baseline."""


@attrs.frozen(kw_only=True)
class Omnibus:
    """Cochran's Q: whether any of the runs differ at all."""

    q: float
    p: float
    tasks: int
    """Those that have a score in every run."""


@attrs.frozen(kw_only=True)
class TaskCell:
    """One task in one run."""

    passed: int
    scored: int
    missing: int


@attrs.frozen(kw_only=True)
class TaskAcross:
    """One task in every run; ``cells`` in the order of the runs. ``task_id`` is its name in the baseline."""

    task_id: str
    digest: str
    cells: tuple[TaskCell, ...]


@attrs.frozen(kw_only=True)
class CompareReport:
    """Any number of runs side by side."""

    suite: str
    baseline: str
    """The label of the run that the others are held against."""
    confidence: float
    runs: tuple[Compared, ...]
    omnibus: Omnibus | None
    """``None`` with fewer than three runs, or with repeats."""
    tasks: tuple[TaskAcross, ...]
    """The tasks that all runs have, without ``quarantined``."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks that one of the runs says are quarantined: they are in no number, but for ``with_quarantined``."""
    left_out: int
    """Tasks that only some of the runs have, and none says are quarantined."""
