"""What a comparison of many runs says, as values."""

from __future__ import annotations

import attrs

from agentbench_report.comparison.comparable import Refusal
from agentbench_report.comparison.estimates import Detectable, Estimate, Verdict
from agentbench_report.comparison.paired_report import Side


@attrs.frozen(kw_only=True)
class Against:
    """One run held against the baseline. Differences are this run minus the baseline."""

    verdict: Verdict
    """By ``p_holm``."""
    estimate: Estimate
    worst: Estimate | None
    """As if what is missing had gone against this run; ``None`` when nothing is missing."""
    best: Estimate | None
    p_holm: float
    """The p of the estimate, made larger because several runs are held against one baseline (Holm)."""
    detectable: Detectable
    """At the level that is left for one of several comparisons: 1 minus the confidence, by their number."""
    complete_pairs: int
    incomplete: int
    """Tasks in which an attempt of either run has no score."""
    same_variant: bool
    overridden: tuple[Refusal, ...]
    warnings: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Compared:
    """One of the runs."""

    label: str
    """The variant; numbered where several runs are of one name."""
    side: Side
    """Over the tasks that all runs have."""
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
    """The tasks that all runs have."""
    left_out: int
    """Tasks that only some of the runs have."""
