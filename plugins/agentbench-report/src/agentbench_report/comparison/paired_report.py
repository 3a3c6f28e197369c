"""What a paired comparison says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentbench_report.comparison.aside import QuarantinedTask
from agentbench_report.comparison.comparable import Refusal
from agentbench_report.comparison.detectable import Detectable
from agentbench_report.comparison.estimates import Estimate, Method, Verdict
from agentbench_report.statistics import Interval

RateMethod = Literal["wilson", "over tasks", ""]
"""How the interval of a pass rate was made: from independent attempts, or from tasks that were tried several times."""


@attrs.frozen(kw_only=True)
class Side:
    """One run. Counts and sums are over the tasks that both runs have."""

    directory: str
    run_id: str
    suite: str
    variant: str
    variant_digest: str
    agent: str
    model: str
    """What the run asked for; empty without a model."""
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
    """Over the complete pairs, as a mean over tasks; ``None`` when there is none."""
    interval: Interval | None
    interval_method: RateMethod
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float


@attrs.frozen(kw_only=True)
class Diff:
    """Where the final diff of an attempt lies, below the run directory."""

    repeat: int
    result: Literal["passed", "failed"]
    path: str


@attrs.frozen(kw_only=True)
class PairSide:
    """One task in one of the runs."""

    task_id: str
    passed: int
    scored: int
    unscored: int
    not_recorded: int
    pass_rate: float | None
    reasons: Mapping[str, int]
    """Failure reasons of the attempts that did not pass, scored or not, with their counts."""
    diffs: tuple[Diff, ...]
    """Only of tasks that regressed or improved: of three attempts at most, first those that show the change, as those
    that failed in B where the task regressed."""


Change = Literal["regressed", "improved", "same", "unknown", "invalid", "quarantined"]


@attrs.frozen(kw_only=True)
class TaskRow:
    """One task in both runs."""

    task_id: str
    digest: str
    change: Change
    """``unknown``: it has no score in one of the runs; ``invalid``: it was found in both to be no task;
    ``quarantined``: one of the runs says so."""
    difference: float | None
    """Pass rate in B minus pass rate in A."""
    a: PairSide
    b: PairSide


@attrs.frozen(kw_only=True)
class ReasonShift:
    """How often attempts ended for a reason, in each run, over the tasks that both have."""

    reason: str
    a: int
    b: int


@attrs.frozen(kw_only=True)
class Move:
    """How many tasks ended in one way in A, and in another in B."""

    a: str
    b: str
    tasks: int


@attrs.frozen(kw_only=True)
class PairedReport:
    """B held against A, task by task. Differences are B minus A."""

    verdict: Verdict
    headline: str
    """The verdict in words, with what missing and suspected attempts and quarantined tasks could change."""
    robust: bool
    """The verdict is the same whatever the missing attempts would have been."""
    same_variant: bool
    """Both runs are of one configuration."""
    same_terms: bool
    """Nothing else is known to differ either: then what differs between two runs of one variant is noise."""
    method: Method
    confidence: float
    seed: int
    """Of everything drawn at random; it follows from the two run ids."""
    a: Side
    b: Side
    overridden: tuple[Refusal, ...]
    """What speaks against this comparison, and was overridden by a flag."""
    warnings: tuple[str, ...]
    pairs: int
    """Tasks that both runs have, without ``invalid`` and ``quarantined``."""
    complete_pairs: int
    """Those with a score on both sides."""
    incomplete: tuple[str, ...]
    """Tasks of both runs in which an attempt has no score."""
    invalid: tuple[str, ...]
    """Tasks of both runs that all attempts found to be none: they are in no number and no bound."""
    quarantined: tuple[QuarantinedTask, ...]
    """Tasks of either that one of the runs says are quarantined: they are in no number, but for ``with_quarantined``.
    The reason in A comes first."""
    suspected: int
    """Scored attempts of both runs that may have attacked their verdict or seen what they must not."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    estimate: Estimate
    """Over the complete pairs."""
    worst: Estimate | None
    """As if what is missing had passed in A and failed in B; ``None`` when nothing is missing."""
    best: Estimate | None
    """As if what is missing had failed in A and passed in B; ``None`` when nothing is missing."""
    with_quarantined: Estimate | None
    """With the quarantined tasks that both runs have; ``None`` without any."""
    without_suspected: Estimate | None
    """As if the suspected attempts had no score; ``None`` without any."""
    detectable: Detectable
    reasons: tuple[ReasonShift, ...]
    moves: tuple[Move, ...]
    """The tasks that ended in another way; empty with repeats."""
    tasks: tuple[TaskRow, ...]
