"""The report of a paired comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentbench_report.comparison.detectable import DetectableEffect
from agentbench_report.comparison.estimates import Estimate, Method, Verdict
from agentbench_report.comparison.metrics import MetricComparison
from agentbench_report.comparison.quarantined import QuarantinedTask
from agentbench_report.comparison.refusals import Refusal
from agentbench_report.statistics import Interval

RateMethod = Literal["wilson", "over tasks", ""]
"""How the interval of a pass rate was computed: from independent attempts (``wilson``), or over tasks with several
attempts; empty without an interval."""


@attrs.frozen(kw_only=True)
class Side:
    """One of the runs. Counts and sums are over the counted tasks that all compared runs have."""

    directory: str
    run_id: str
    suite: str
    variant: str
    variant_digest: str
    agent: str
    model: str
    """The requested model; empty without one."""
    harness: str
    status: str
    """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
    repeats: int
    planned: int
    scored: int
    passed: int
    unscored: int
    not_recorded: int
    pass_rate: float | None
    """The mean over the tasks with a score in every compared run; ``None`` without any."""
    interval: Interval | None
    interval_method: RateMethod
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float


@attrs.frozen(kw_only=True)
class Diff:
    """The final diff of an attempt. ``path`` is relative to the run directory."""

    repeat: int
    result: Literal["passed", "failed"]
    path: str


@attrs.frozen(kw_only=True)
class PairSide:
    """A task in one of the runs."""

    task_id: str
    passed: int
    scored: int
    unscored: int
    not_recorded: int
    pass_rate: float | None
    reasons: Mapping[str, int]
    """The number of attempts that did not pass, scored or not, by failure reason."""
    diffs: tuple[Diff, ...]
    """For tasks that regressed or improved: diffs of up to three attempts, starting with those that show the change,
    such as attempts that failed in B if the task regressed."""


Change = Literal["regressed", "improved", "same", "unknown", "invalid", "quarantined"]


@attrs.frozen(kw_only=True)
class TaskRow:
    """A task in both runs."""

    task_id: str
    digest: str
    change: Change
    """``unknown``: no score in one of the runs; ``invalid``: invalid in both runs; ``quarantined``: in either run."""
    difference: float | None
    """The pass rate in B minus the pass rate in A."""
    a: PairSide
    b: PairSide


@attrs.frozen(kw_only=True)
class ReasonShift:
    """The number of attempts with one failure reason (or ``not recorded``) in each run, over the paired tasks."""

    reason: str
    a: int
    b: int


@attrs.frozen(kw_only=True)
class Move:
    """The number of tasks with one outcome in A and another in B."""

    a: str
    b: str
    tasks: int


@attrs.frozen(kw_only=True)
class PairedReport:
    """The comparison of B with A, paired by task. Differences are B minus A."""

    verdict: Verdict
    headline: str
    """The verdict in words, and possible effects of missing or suspect attempts and quarantined tasks."""
    robust: bool
    """Whether the verdict is the same in the worst and the best case."""
    same_variant: bool
    """Whether both runs use the same variant."""
    same_terms: bool
    """Whether only the variant is known to differ. If so, differences between runs of one variant are noise."""
    method: Method
    confidence: float
    seed: int
    """The seed of all random sampling, derived from the two run ids."""
    a: Side
    b: Side
    overridden: tuple[Refusal, ...]
    """Refusals that were overridden by a flag."""
    warnings: tuple[str, ...]
    pairs: int
    """The number of tasks that both runs have, excluding invalid and quarantined tasks."""
    complete_pairs: int
    """The number of pairs with a score on both sides."""
    incomplete: tuple[str, ...]
    """Tasks in both runs that have an attempt without a score in either run."""
    invalid: tuple[str, ...]
    """Tasks found invalid in every attempt of both runs. They are not counted."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks that either run quarantined. They count only in ``with_quarantined``. The reason in A comes first."""
    suspected: int
    """The number of scored attempts in both runs suspected of tampering or of leaked information."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    estimate: Estimate
    """The estimate over the complete pairs."""
    worst: Estimate | None
    """The estimate if missing attempts passed in A and failed in B; ``None`` if none are missing."""
    best: Estimate | None
    """The estimate if missing attempts failed in A and passed in B; ``None`` if none are missing."""
    with_quarantined: Estimate | None
    """The estimate including the quarantined tasks that both runs have; ``None`` without any."""
    without_suspected: Estimate | None
    """The estimate with suspect attempts treated as unscored; ``None`` without any."""
    detectable: DetectableEffect
    metrics: tuple[MetricComparison, ...]
    """Cost and effort per attempt over the complete pairs: US dollars, tokens, steps and seconds."""
    reasons: tuple[ReasonShift, ...]
    moves: tuple[Move, ...]
    """The changes of outcome from A to B, most frequent first; empty with repeats."""
    tasks: tuple[TaskRow, ...]
