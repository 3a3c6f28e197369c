"""Compare the cost and effort of two runs: US dollars, tokens, steps and seconds per attempt, paired by task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from agentbench_report.comparison.alignment import TaskPair
from agentbench_report.counts import Effort, RunCounts
from agentbench_report.statistics import Interval, PairedAmounts, paired_amounts

Metric = Literal["cost_usd", "tokens", "steps", "duration_sec"]
"""US dollars, input and output tokens, tool calls, and seconds from the start of an attempt to its end."""

Change = Literal["more", "less", "unclear"]

_AMOUNTS: Mapping[Metric, Callable[[Effort], float]] = {
    "cost_usd": lambda effort: effort.cost_usd,
    "tokens": lambda effort: effort.tokens,
    "steps": lambda effort: effort.steps,
    "duration_sec": lambda effort: effort.duration_sec,
}
_OF_MODELS = ("cost_usd", "tokens")
_OVERLOADED = "under_pressure"
"""The label of attempts that timed out while the machine was overloaded."""


@attrs.frozen(kw_only=True)
class MetricComparison:
    """One amount per attempt in B compared with A. The sample is the tasks with a score in both runs.

    The value of a task is the mean over its scored attempts, so tasks have equal weight.
    """

    metric: Metric
    tasks: int
    mean_a: float | None
    """The mean over tasks; ``None`` if it is unknown."""
    mean_b: float | None
    difference: float | None
    """B minus A; ``None`` if either is unknown."""
    interval: Interval | None
    """The paired t interval over tasks; ``None`` with fewer than two tasks, or if all differences are equal."""
    ratio: float | None
    """``mean_b / mean_a``; ``None`` if either is unknown or ``mean_a`` is 0."""
    ratio_interval: Interval | None
    """Fieller's interval over tasks; ``None`` if it is not bounded, or without ``interval``."""
    change: Change
    """Whether B uses more or less than A: ``unclear`` if the interval contains 0, or there is none."""
    unknown_a: str
    """Why the amount is unknown in A; empty if it is known."""
    unknown_b: str
    notes: tuple[str, ...]
    """Reasons for caution: untrusted text, one line each, without a full stop."""


def compare_metrics(
    a: RunCounts, b: RunCounts, pairs: Sequence[TaskPair], confidence: float = 0.95
) -> tuple[MetricComparison, ...]:
    """Compare B with A on every metric, over the ``pairs`` that have a score in both runs.

    Intervals are not adjusted for the number of metrics.
    """
    complete = [pair for pair in pairs if pair.a.effort.attempts and pair.b.effort.attempts]
    return tuple(_compared(metric, a, b, complete, confidence) for metric in _AMOUNTS)


def _compared(
    metric: Metric, a: RunCounts, b: RunCounts, pairs: Sequence[TaskPair], confidence: float
) -> MetricComparison:
    of = _AMOUNTS[metric]
    efforts = [pair.a.effort for pair in pairs], [pair.b.effort for pair in pairs]
    in_a, in_b = ([of(effort) / effort.attempts for effort in side] for side in efforts)
    amounts = paired_amounts(in_a, in_b, confidence)
    unknown_a, unknown_b = (
        _unknown(metric, run, side, other)
        for run, side, other in ((a, efforts[0], efforts[1]), (b, efforts[1], efforts[0]))
    )
    known = None if unknown_a or unknown_b else amounts
    return MetricComparison(
        metric=metric,
        tasks=len(pairs),
        mean_a=None if amounts is None or unknown_a else amounts.a,
        mean_b=None if amounts is None or unknown_b else amounts.b,
        difference=None if known is None else known.difference,
        interval=None if known is None else known.interval,
        ratio=None if known is None else known.ratio,
        ratio_interval=None if known is None else known.ratio_interval,
        change=_change(known),
        unknown_a=unknown_a,
        unknown_b=unknown_b,
        notes=tuple(_notes(metric, a, b, efforts)),
    )


def _change(amounts: PairedAmounts | None) -> Change:
    if amounts is None or amounts.interval is None:
        return "unclear"
    return "more" if amounts.interval.low > 0 else "less" if amounts.interval.high < 0 else "unclear"


def _unknown(metric: Metric, run: RunCounts, side: Sequence[Effort], other: Sequence[Effort]) -> str:
    """Why the amount is unknown in a run, as text; empty if it is known."""
    if not side:
        return ""
    if metric == "cost_usd" and run.unknown_cost:
        return run.unknown_cost
    if metric in _OF_MODELS and not _calls(side) and _calls(other):
        return "no model calls were recorded"
    without = sum(effort.without_tokens for effort in side)
    if metric == "tokens" and without:
        return f"{without} attempt{'' if without == 1 else 's'} called a model but recorded no tokens"
    if metric == "duration_sec" and run.replayed:
        return f"{run.replayed} attempt{'' if run.replayed == 1 else 's'} replayed model calls instead of making them"
    return ""


def _calls(side: Sequence[Effort]) -> int:
    return sum(effort.llm_calls for effort in side)


def _notes(
    metric: Metric, a: RunCounts, b: RunCounts, efforts: tuple[Sequence[Effort], Sequence[Effort]]
) -> Iterator[str]:
    if metric in _OF_MODELS and not any(map(_calls, efforts)):
        yield "neither run recorded model calls"
    if metric == "tokens" and (a.replayed or b.replayed):
        yield "replayed attempts report the token counts of the original calls"
    if metric != "duration_sec":
        return
    parallel = [_workers(run) for run in (a, b)]
    if parallel[0] != parallel[1]:
        yield f"attempts in parallel: up to {parallel[0]} in A, up to {parallel[1]} in B"
    machines = [tuple(run.manifest.platform.get(name, "") for name in ("machine", "cpus")) for run in (a, b)]
    if machines[0] != machines[1]:
        yield "the runs used different machines"
    for side, run in (("A", a), ("B", b)):
        overloaded = run.labels.get(_OVERLOADED, 0)
        if overloaded:
            yield f"{overloaded} attempt{'' if overloaded == 1 else 's'} in {side} timed out on an overloaded machine"


def _workers(run: RunCounts) -> str:
    setting = run.manifest.config.get("run.workers")
    return "an unknown number" if setting is None else str(setting.value)
