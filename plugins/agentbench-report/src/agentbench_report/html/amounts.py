"""The table of cost, tokens, steps and time per attempt of two runs, with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agentbench_report.comparison.metrics import Metric, MetricComparison
from agentbench_report.html.wording import NONE, seconds, usd

_NAMES: Mapping[Metric, str] = {"cost_usd": "cost", "tokens": "tokens", "steps": "steps", "duration_sec": "time"}
_FORMATS: Mapping[Metric, Callable[[float], str]] = {
    "cost_usd": usd,
    "tokens": lambda value: f"{value:,.0f}",
    "steps": lambda value: f"{value:,.1f}",
    "duration_sec": seconds,
}


@attrs.frozen(kw_only=True)
class AmountRow:
    """One amount per attempt in both runs, as text."""

    name: str
    a: str
    b: str
    difference: str
    interval: str
    ratio: str
    change: str


@attrs.frozen(kw_only=True)
class Amounts:
    """The table with reasons for caution (untrusted text). ``level`` is the heading for intervals: ``95% CI``."""

    rows: Sequence[AmountRow]
    level: str
    notes: Sequence[str]


def amounts(metrics: Sequence[MetricComparison]) -> Amounts | None:
    """The table of a comparison; ``None`` if no task has a score in both runs."""
    if not any(each.tasks for each in metrics):
        return None
    levels = (f"{100 * each.interval.confidence:.4g}% CI" for each in metrics if each.interval is not None)
    return Amounts(
        rows=[_row(each) for each in metrics],
        level=next(levels, "CI"),
        notes=[f"{_NAMES[each.metric]}: {note}" for each in metrics for note in _notes(each)],
    )


def _row(each: MetricComparison) -> AmountRow:
    shown = _FORMATS[each.metric]

    def signed(value: float) -> str:
        return f"{'+' if value > 0 else '−' if value < 0 else ''}{shown(abs(value))}"  # noqa: RUF001 - a minus sign

    def ratio() -> Iterator[str]:
        if each.ratio is not None:
            yield f"×{each.ratio:.2f}"  # noqa: RUF001 - a multiplication sign
        if each.ratio_interval is not None:
            yield f"{each.ratio_interval.low:.2f} to {each.ratio_interval.high:.2f}"

    return AmountRow(
        name=_NAMES[each.metric],
        a=NONE if each.mean_a is None else shown(each.mean_a),
        b=NONE if each.mean_b is None else shown(each.mean_b),
        difference=NONE if each.difference is None else signed(each.difference),
        interval=NONE if each.interval is None else f"{signed(each.interval.low)} to {signed(each.interval.high)}",
        ratio=", ".join(ratio()) or NONE,
        change=each.change,
    )


def _notes(each: MetricComparison) -> Iterator[str]:
    for letter, why in (("A", each.unknown_a), ("B", each.unknown_b)):
        if why:
            yield f"unknown in {letter}, {why}"
    yield from each.notes
