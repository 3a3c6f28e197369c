"""What a gate says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentbench_report.comparison.aside import QuarantinedTask
from agentbench_report.gate.config import GateRules
from agentbench_report.statistics import NonInferiority, PairTable

Status = Literal["pass", "fail", "inconclusive"]


@attrs.frozen(kw_only=True)
class Check:
    """One thing that was looked at. Shares and rates are between 0 and 1, costs US dollars."""

    name: str
    status: Status
    measured: float | None
    """``None`` when there was nothing to measure."""
    asked: float | None
    """What ``gate.yaml`` asks for; ``None`` where a number says nothing."""
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
    """Mean over the tasks that have a score in both runs."""


@attrs.frozen(kw_only=True)
class Comparison:
    """Candidate against baseline, under one assumption about what is missing."""

    method: Literal["tango", "t_tango"]
    """``tango``: score test on pairs of single attempts; ``t_tango``: for repeats, both the t test on the tasks'
    differences and the score test on their sums."""
    tasks: int
    table: PairTable | None
    """``None`` with repeats."""
    difference: float | None
    """Pass rate of the candidate minus that of the baseline."""
    result: NonInferiority


@attrs.frozen(kw_only=True)
class Moved:
    """A task whose pass rate is another one than in the baseline."""

    task_id: str
    baseline: float
    candidate: float
    reasons: Mapping[str, int]
    """Why attempts did not pass: the candidate's for a regression, the baseline's for an improvement."""


@attrs.frozen(kw_only=True)
class GateReport:
    """A verdict, and everything that it rests on."""

    verdict: Status
    reason: str
    """The check that decided, in words; of a pass, the one on the difference."""
    suite: str
    baseline: Side
    candidate: Side
    rules: GateRules
    rules_from: str
    """Where in the gate file they stand: ``top level``, or ``suites.NAME``, with what that leaves to the top level."""
    checks: tuple[Check, ...]
    complete: Comparison
    """Over pairs that have a score on both sides."""
    worst_case: Comparison
    """As if what is missing had passed in the baseline and failed in the candidate, whole tasks too; with those that
    only one of the runs says are quarantined."""
    with_quarantined: Comparison | None
    """``complete`` with the quarantined tasks that both runs have; ``None`` without any."""
    without_suspected: Comparison | None
    """``complete`` as if suspected attempts had no score; ``None`` without any."""
    regressed: tuple[Moved, ...]
    improved: tuple[Moved, ...]
    incomplete: tuple[str, ...]
    """Tasks of both runs in which an attempt has no score."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks that one of the runs says are quarantined: they are no pairs. The baseline's reason comes first."""
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    overridden: tuple[str, ...]
    """Why the runs are not comparable, and flags said to compare them all the same."""
    warnings: tuple[str, ...]

    @property
    def disputed(self) -> int:
        """How many tasks only one of the runs says are quarantined."""
        return sum(not all(task.reasons) for task in self.quarantined)

    def exit_code(self, *, inconclusive_ok: bool) -> int:
        """0 or 1. ``inconclusive_ok``: what is inconclusive does not stop anybody."""
        return int(self.verdict == "fail" or (self.verdict == "inconclusive" and not inconclusive_ok))
