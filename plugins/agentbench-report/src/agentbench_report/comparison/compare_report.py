"""The report of a comparison of several runs."""

from __future__ import annotations

import attrs

from agentbench_report.comparison.detectable import DetectableEffect
from agentbench_report.comparison.estimates import Estimate, Verdict
from agentbench_report.comparison.metrics import MetricComparison
from agentbench_report.comparison.paired_report import Side
from agentbench_report.comparison.quarantined import QuarantinedTask
from agentbench_report.comparison.refusals import Refusal


@attrs.frozen(kw_only=True)
class BaselineComparison:
    """The comparison of a run with the baseline. Differences are this run minus the baseline."""

    verdict: Verdict
    """Based on ``p_holm``."""
    robust: bool
    """Whether the verdict is the same in the worst and the best case for this run."""
    about_missing: str
    """The effect that missing attempts could have on the result, with adjusted p-values; empty if none are missing."""
    about_aside: str
    """The effect that quarantined tasks and suspect attempts could have on the result; empty without any."""
    estimate: Estimate
    worst: Estimate | None
    """The estimate if missing attempts failed in this run and passed in the baseline; ``None`` if none are missing."""
    best: Estimate | None
    with_quarantined: Estimate | None
    """The estimate including the quarantined tasks that all runs have; ``None`` without any."""
    without_suspected: Estimate | None
    """The estimate with suspect attempts treated as unscored; ``None`` without any."""
    suspected: int
    """The number of scored attempts in both runs suspected of tampering or of leaked information."""
    p_holm: float
    """The p-value of the estimate, adjusted for the number of comparisons (Holm)."""
    detectable: DetectableEffect
    """The effect detectable at the adjusted level: 1 minus the confidence, divided by the number of comparisons."""
    metrics: tuple[MetricComparison, ...]
    """Cost and effort per attempt, over the complete pairs. Intervals are not adjusted."""
    complete_pairs: int
    incomplete: int
    """The number of tasks in both runs that have an attempt without a score in either run."""
    invalid: tuple[str, ...]
    """Tasks found invalid in every attempt of both runs, by their ids in the baseline. They are not counted."""
    same_variant: bool
    same_terms: bool
    """Whether only the variant is known to differ. If so, differences between runs of one variant are noise."""
    overridden: tuple[Refusal, ...]
    warnings: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ComparedRun:
    """One of the compared runs."""

    label: str
    """The variant name, numbered if several runs use it."""
    side: Side
    """The run, counted over the tasks that all runs have. The pass rate is over tasks with a score in every run."""
    cost_per_pass_usd: float | None
    against: BaselineComparison | None
    """``None`` for the baseline."""


@attrs.frozen(kw_only=True)
class Omnibus:
    """Cochran's Q test for any difference among the runs."""

    q: float
    p: float
    tasks: int
    """The number of tasks with a score in every run."""


@attrs.frozen(kw_only=True)
class TaskCell:
    """The attempts at a task in one run."""

    passed: int
    scored: int
    missing: int


@attrs.frozen(kw_only=True)
class TaskAcross:
    """A task in all runs, with one cell per run in order. ``task_id`` is its id in the baseline."""

    task_id: str
    digest: str
    cells: tuple[TaskCell, ...]


@attrs.frozen(kw_only=True)
class CompareReport:
    """The comparison of any number of runs with a baseline."""

    suite: str
    baseline: str
    """The label of the baseline run."""
    confidence: float
    runs: tuple[ComparedRun, ...]
    omnibus: Omnibus | None
    """``None`` with fewer than three runs, with repeats, or if no task has a score in every run."""
    tasks: tuple[TaskAcross, ...]
    """The tasks that all runs have, excluding quarantined tasks."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks that any run quarantined. They count only in ``with_quarantined``."""
    left_out: int
    """The number of tasks that only some runs have, excluding quarantined tasks."""
