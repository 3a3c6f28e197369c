"""Format the comparison of cost and effort as a Markdown table, and as cells of a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentbench_core import MarkdownCell, escape_markdown, markdown_table
from agentbench_report.comparison.metrics import Metric, MetricComparison

_NAMES: Mapping[Metric, str] = {"cost_usd": "USD", "tokens": "tokens", "steps": "steps", "duration_sec": "seconds"}
_DECIMALS: Mapping[Metric, int] = {"cost_usd": 4, "tokens": 1, "steps": 2, "duration_sec": 2}

CSV_FIELDS = ("difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high")
"""The columns of :func:`metric_cells`. Their names start with the name of the metric."""


def metrics_markdown(groups: Sequence[tuple[str, Sequence[MetricComparison]]], a: str, b: str) -> str:
    """A table with one row per metric, the method, and reasons for caution.

    Args:
        groups: labels with their comparisons. Labels are untrusted. A single empty label is not shown.
        a: the heading of the column for A, such as ``baseline``.
        b: the heading of the column for B.
    """
    confidence = next(
        (each.interval.confidence for _, metrics in groups for each in metrics if each.interval is not None), None
    )
    level = "CI" if confidence is None else f"{100 * confidence:.4g}% CI"
    labelled = any(label for label, _ in groups)
    header = ["per attempt", "tasks", a, b, "difference", level, "ratio", f"ratio {level}", f"{b} uses"]
    rows = [
        [*([escape_markdown(label)] if labelled else []), *_row(each), each.change]
        for label, metrics in groups
        for each in metrics
    ]
    notes = [
        f"- {escape_markdown(f'{label}, ' if label else '')}{line}"
        for label, metrics in groups
        for line in _notes(metrics, a, b)
    ]
    method = (
        "Means are over tasks with a score in both runs. The value of a task is the mean over its scored attempts. "
        "Differences have paired t intervals, and ratios of the means have Fieller intervals. Both are over tasks and "
        "not adjusted for the number of comparisons. The last column is `unclear` if the interval of the difference "
        "includes 0."
    )
    table = markdown_table([*(["variant"] if labelled else []), *header], rows)
    return "\n\n".join(filter(None, [table, method, "\n".join(notes)]))


def _row(each: MetricComparison) -> list[MarkdownCell]:
    decimals = _DECIMALS[each.metric]
    means = [None if mean is None else f"{mean:.{decimals}f}" for mean in (each.mean_a, each.mean_b)]
    cells: list[MarkdownCell] = [_NAMES[each.metric], each.tasks, *means]
    cells.append(None if each.difference is None else f"{each.difference:+z.{decimals}f}")
    cells.append(
        None if each.interval is None else f"{each.interval.low:+z.{decimals}f} to {each.interval.high:+z.{decimals}f}"
    )
    cells.append(None if each.ratio is None else f"{each.ratio:.3f}")
    bounds = each.ratio_interval
    return [*cells, None if bounds is None else f"{bounds.low:.3f} to {bounds.high:.3f}"]


def _notes(metrics: Sequence[MetricComparison], a: str, b: str) -> Iterator[str]:
    for each in metrics:
        name = _NAMES[each.metric]
        for side, why in ((a, each.unknown_a), (b, each.unknown_b)):
            if why:
                yield f"{name}: unknown in {side}: {escape_markdown(why)}"
        for note in each.notes:
            yield f"{name}: {escape_markdown(note)}"
        if each.difference is not None and each.interval is None:
            yield f"{name}: no interval, because {_spread(each.tasks)}"


def _spread(tasks: int) -> str:
    return "there is only one task" if tasks == 1 else "all tasks differ by the same amount"


def csv_header() -> tuple[str, ...]:
    """The headings of :func:`metric_cells`, such as ``cost_usd_ratio_low``."""
    return tuple(f"{metric}_{field}" for metric in _NAMES for field in CSV_FIELDS)


def metric_cells(metrics: Sequence[MetricComparison]) -> list[MarkdownCell]:
    """The differences and ratios of all metrics with their bounds; empty cells for unknown numbers."""
    cells: list[MarkdownCell] = []
    for each in metrics:
        for value, bounds in ((each.difference, each.interval), (each.ratio, each.ratio_interval)):
            numbers = (value, *((bounds.low, bounds.high) if bounds is not None else (None, None)))
            cells += [None if number is None else float(f"{number:.6g}") for number in numbers]
    return cells
