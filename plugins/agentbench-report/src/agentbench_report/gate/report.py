"""The gate report as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentbench_report.comparison.metrics import MetricComparison
from agentbench_report.comparison.quarantined import QuarantinedTask
from agentbench_report.gate.config import GateRules
from agentbench_report.statistics import NonInferiority, PairTable

Status = Literal["pass", "fail", "inconclusive"]


@attrs.frozen(kw_only=True)
class Check:
    """The result of one check. Shares and rates are between 0 and 1, costs in US dollars."""

    name: str
    status: Status
    measured: float | None
    """``None`` if there was nothing to measure."""
    asked: float | None
    """The bound that the measured value is compared with; ``None`` if there is none."""
    why: str


@attrs.frozen(kw_only=True)
class Side:
    """One of the two runs."""

    run_id: str
    variant: str
    planned: int
    scored: int
    unscored: int
    not_recorded: int
    pass_rate: float | None
    """The mean over the tasks that have a score in both runs."""


@attrs.frozen(kw_only=True)
class Comparison:
    """Candidate compared with baseline, under one assumption about missing results."""

    method: Literal["tango", "t_tango"]
    """``tango``: score test on pairs of single attempts. ``t_tango``: for repeats, both the t test on per-task
    differences and the score test on their sums."""
    tasks: int
    table: PairTable | None
    """``None`` with repeats."""
    difference: float | None
    """The pass rate of the candidate minus the pass rate of the baseline."""
    result: NonInferiority


@attrs.frozen(kw_only=True)
class Moved:
    """A task with different pass rates in baseline and candidate."""

    task_id: str
    baseline: float
    candidate: float
    reasons: Mapping[str, int]
    """The failure reasons: the candidate's for a regression, the baseline's for an improvement."""


@attrs.frozen(kw_only=True)
class GateReport:
    """The verdict and its evidence."""

    verdict: Status
    reason: str
    """The explanation of the first check whose status is the verdict; for a pass, the check on the difference."""
    suite: str
    baseline: Side
    candidate: Side
    rules: GateRules
    rules_from: str
    """The section of the gate file: ``top level``, or ``suites.NAME`` (merged over the top level)."""
    checks: tuple[Check, ...]
    complete: Comparison
    """The comparison over tasks with a score in both runs."""
    worst_case: Comparison
    """The comparison with missing attempts and tasks counted as passed in the baseline and failed in the candidate,
    including tasks that are quarantined in only one of the runs."""
    with_quarantined: Comparison | None
    """``complete`` including the quarantined tasks that both runs have; ``None`` if there are none."""
    without_suspected: Comparison | None
    """``complete`` with suspect attempts treated as unscored; ``None`` if there are none."""
    metrics: tuple[MetricComparison, ...]
    """Cost and effort over the tasks of ``complete``. Only the rules for cost and duration use them."""
    regressed: tuple[Moved, ...]
    improved: tuple[Moved, ...]
    incomplete: tuple[str, ...]
    """Tasks in both runs that have an attempt without a score in either run."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks quarantined in either run, which are not compared. The baseline's reason comes first."""
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    overridden: tuple[str, ...]
    """Reasons why the runs are not comparable, overridden by flags."""
    warnings: tuple[str, ...]

    @property
    def disputed(self) -> int:
        """The number of tasks quarantined in only one of the runs, including tasks that the other run does not have."""
        return sum(not all(task.reasons) for task in self.quarantined)

    def exit_code(self, *, inconclusive_ok: bool) -> int:
        """0 or 1. With ``inconclusive_ok``, an inconclusive verdict gives 0."""
        return int(self.verdict == "fail" or (self.verdict == "inconclusive" and not inconclusive_ok))
