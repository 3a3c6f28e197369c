"""Format a gate report as Markdown for the summary page of a CI job, with the verdict on the first line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench_core import MarkdownCell, escape_markdown, markdown_table
from agentbench_report.comparison.metrics_text import metrics_markdown
from agentbench_report.gate.report import Comparison, GateReport, Moved, Side
from agentbench_report.text import counted, percent, points

VERDICTS = {"pass": "PASS", "fail": "FAIL", "inconclusive": "INCONCLUSIVE"}

_MAX_TASKS = 50
"""The maximum number of tasks per table."""


def gate_markdown(report: GateReport, *, inconclusive_ok: bool) -> str:
    """The verdict, its reason, the checks, the two runs, and the tasks with changed results."""
    parts = [f"# Gate: {VERDICTS[report.verdict]}", escape_markdown(report.reason)]
    if report.verdict == "inconclusive":
        parts.append(_ACCEPTED if inconclusive_ok else _NOT_ACCEPTED)
    parts += [f"**Not comparable (overridden by a flag):** {escape_markdown(reason)}" for reason in report.overridden]
    parts += [f"Warning: {escape_markdown(warning)}." for warning in report.warnings]
    if report.quarantined:
        several = len(report.quarantined) > 1
        parts.append(f"{_count(len(report.quarantined))} {'are' if several else 'is'} quarantined and not compared.")
    rows = [(check.name, VERDICTS[check.status], escape_markdown(check.why)) for check in report.checks]
    parts.append(f"Suite {escape_markdown(report.suite)}, rules: {escape_markdown(report.rules_from)}.")
    parts += ["## Checks", markdown_table(("check", "status", "why"), rows)]
    parts += ["## Runs", _sides(report), *_comparisons(report)]
    parts += ["## Cost and effort", metrics_markdown([("", report.metrics)], "baseline", "candidate")]
    parts += _moved("Regressed", report.regressed, "failure reasons of the candidate")
    parts += _moved("Improved", report.improved, "failure reasons of the baseline")
    parts += _names("Attempts without a score", report.incomplete)
    parts += _names("Quarantined", [task.line(("baseline", "candidate")) for task in report.quarantined])
    parts += _names("Only in the baseline", report.only_baseline)
    parts += _names("Only in the candidate", report.only_candidate)
    return "\n\n".join(parts) + "\n"


_NOT_ACCEPTED = "The gate does not pass, because the evidence is insufficient either way."
_ACCEPTED = "The job does not fail, because inconclusive verdicts are accepted."


def refused_markdown(message: str) -> str:
    """The page of a gate that reached no verdict."""
    return "# Gate: REFUSED\n\n" + "\n".join(f"    {line}" for line in plain_lines(message)) + "\n"


def plain_lines(message: str) -> Sequence[str]:
    """The lines of a message for a code block, with control characters replaced."""
    return [
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line) for line in message.split("\n")
    ]


def moved_lines(report: GateReport) -> Iterator[str]:
    """The tasks with changed results, one line each, as plain text."""
    for change, tasks in (("regressed", report.regressed), ("improved", report.improved)):
        for task in tasks:
            reasons = counted(task.reasons.items())
            rates = f"{percent(task.baseline)} to {percent(task.candidate)}"
            yield f"{change}: {task.task_id}: {rates}{': ' if reasons else ''}{reasons}"


def caution_lines(report: GateReport) -> Iterator[str]:
    """Overridden refusals, warnings and quarantined tasks, one line each, as plain text."""
    yield from (f"not comparable (overridden by a flag): {reason}" for reason in report.overridden)
    yield from (f"warning: {warning}" for warning in report.warnings)
    yield from (f"quarantined: {task.line(('baseline', 'candidate'))}" for task in report.quarantined)


def _sides(report: GateReport) -> str:
    header = ("", "variant", "run", "pass rate", "planned", "scored", "unscored", "not recorded")
    rows = [_side("baseline (A)", report.baseline), _side("candidate (B)", report.candidate)]
    return markdown_table(header, rows)


def _side(name: str, side: Side) -> tuple[MarkdownCell, ...]:
    rate = None if side.pass_rate is None else percent(side.pass_rate)
    counts = (side.planned, side.scored, side.unscored, side.not_recorded)
    return (name, escape_markdown(side.variant), escape_markdown(side.run_id), rate, *counts)


def _comparisons(report: GateReport) -> Iterator[str]:
    """A table of all comparisons in the report, and an explanation of the interval."""
    comparisons = [("scored in both", report.complete)]
    if report.incomplete or report.only_baseline or report.disputed:
        comparisons.append(("worst case", report.worst_case))
    others = (
        ("including quarantined tasks", report.with_quarantined),
        ("excluding suspect attempts", report.without_suspected),
    )
    comparisons += [(name, comparison) for name, comparison in others if comparison is not None]
    header: tuple[str, ...] = ("over", "tasks", "difference", "interval", "p")
    if report.complete.table is not None:
        header += ("both pass", "regressed", "improved", "both fail")
    yield markdown_table(header, [(name, *_comparison(comparison)) for name, comparison in comparisons])
    confidence = report.complete.result.interval.confidence
    method = "score interval (Tango)"
    if report.complete.method != "tango":
        method = "interval, the hull of the t interval over tasks and Tango's score interval of summed differences"
    use = "The interval does not affect the verdict, because the gate file has no margin."
    if report.rules.margin is not None:
        margin, alpha = f"{100 * report.rules.margin:g} pp", percent(report.rules.alpha)
        use = f"To pass, its lower end must be above -{margin} (a one-sided test at {alpha})."
    interval = f"The interval is a {percent(confidence)} {method}."
    yield f"Pass rates are over tasks with a score in both runs. {interval} {use}"


def _comparison(comparison: Comparison) -> tuple[MarkdownCell, ...]:
    bounds = comparison.result.interval
    difference = None if comparison.difference is None else points(comparison.difference)
    cells: tuple[MarkdownCell, ...] = (
        comparison.tasks,
        difference,
        f"{points(bounds.low)} to {points(bounds.high)}",
        f"{comparison.result.p:.4f}",
    )
    if comparison.table is None:
        return cells
    table = comparison.table
    return (*cells, table.both_pass, table.regressions, table.improvements, table.both_fail)


def _moved(heading: str, tasks: Sequence[Moved], reasons: str) -> Iterator[str]:
    if not tasks:
        return
    rows = [
        (
            escape_markdown(task.task_id),
            percent(task.baseline),
            percent(task.candidate),
            escape_markdown(counted(task.reasons.items())),
        )
        for task in tasks[:_MAX_TASKS]
    ]
    yield f"## {heading} ({len(tasks)})"
    yield markdown_table(("task", "baseline", "candidate", reasons), rows)
    yield from _more(len(tasks))


def _names(heading: str, tasks: Sequence[str]) -> Iterator[str]:
    if tasks:
        yield f"## {heading} ({len(tasks)})"
        yield markdown_table(("task",), [(escape_markdown(task),) for task in tasks[:_MAX_TASKS]])
        yield from _more(len(tasks))


def _count(tasks: int) -> str:
    return f"{tasks} task{'s' if tasks > 1 else ''}"


def _more(tasks: int) -> Iterator[str]:
    if tasks > _MAX_TASKS:
        yield f"... and {tasks - _MAX_TASKS} more in the JSON output."
