"""A gate as Markdown, for the summary page of a CI job: the verdict on the first line, then why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench_report.gate.report import Comparison, GateReport, Moved, Side
from agentbench_report.text import Cell, counted, markdown_table, percent, plain, points

VERDICTS = {"pass": "PASS", "fail": "FAIL", "inconclusive": "INCONCLUSIVE"}

_TASKS_SHOWN = 50


def gate_markdown(report: GateReport, *, inconclusive_ok: bool) -> str:
    """Verdict, reason, checks, the two runs, and which tasks moved."""
    parts = [f"# Gate: {VERDICTS[report.verdict]}", plain(report.reason)]
    if report.verdict == "inconclusive":
        parts.append("It does not stop anything: that is what was asked for." if inconclusive_ok else _NOT_YET)
    parts += [f"**Not comparable, and compared all the same:** {plain(ground)}" for ground in report.overridden]
    parts += [f"Warning: {plain(warning)}." for warning in report.warnings]
    if report.quarantined:
        several = len(report.quarantined) > 1
        parts.append(f"{_count(len(report.quarantined))} {'are' if several else 'is'} quarantined, and no pair here.")
    rows = [(check.name, VERDICTS[check.status], plain(check.why)) for check in report.checks]
    parts.append(f"Suite {plain(report.suite)}, rules: {plain(report.rules_from)}.")
    parts += ["## Checks", markdown_table(("check", "status", "why"), rows)]
    parts += ["## Runs", _sides(report), *_comparisons(report)]
    parts += _moved("Regressed", report.regressed, "why the candidate did not pass")
    parts += _moved("Improved", report.improved, "why the baseline did not pass")
    parts += _names("Without a score in one of the runs", report.incomplete)
    parts += _names("Quarantined", [task.line(("baseline", "candidate")) for task in report.quarantined])
    parts += _names("Only in the baseline", report.only_baseline)
    parts += _names("Only in the candidate", report.only_candidate)
    return "\n\n".join(parts) + "\n"


_NOT_YET = "That is no pass: nothing was shown to be wrong, and nothing was shown to be right."


def refused_markdown(message: str) -> str:
    """The page of a gate that gave no verdict."""
    return "# Gate: REFUSED\n\n" + "\n".join(f"    {line}" for line in plain_lines(message)) + "\n"


def plain_lines(message: str) -> Sequence[str]:
    """A message of several lines for a block of code: control characters gone, nothing else changed."""
    return [
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line) for line in message.split("\n")
    ]


def moved_lines(report: GateReport) -> Iterator[str]:
    """The tasks that moved, a line each, as plain text."""
    for what, tasks in (("regressed", report.regressed), ("improved", report.improved)):
        for task in tasks:
            reasons = counted(task.reasons.items())
            rates = f"{percent(task.baseline)} to {percent(task.candidate)}"
            yield f"{what}: {task.task_id}: {rates}{': ' if reasons else ''}{reasons}"


def doubt_lines(report: GateReport) -> Iterator[str]:
    """What speaks against taking the verdict as it is, a line each, as plain text."""
    yield from (f"not comparable, and compared all the same: {ground}" for ground in report.overridden)
    yield from (f"warning: {warning}" for warning in report.warnings)
    yield from (f"quarantined: {task.line(('baseline', 'candidate'))}" for task in report.quarantined)


def _sides(report: GateReport) -> str:
    header = ("", "variant", "run", "pass rate", "planned", "scored", "unscored", "not recorded")
    rows = [_side("baseline (A)", report.baseline), _side("candidate (B)", report.candidate)]
    return markdown_table(header, rows)


def _side(name: str, side: Side) -> tuple[Cell, ...]:
    rate = None if side.pass_rate is None else percent(side.pass_rate)
    counts = (side.planned, side.scored, side.unscored, side.not_recorded)
    return (name, plain(side.variant), plain(side.run_id), rate, *counts)


def _comparisons(report: GateReport) -> Iterator[str]:
    """Both assumptions side by side, one if nothing is missing; and what quarantine and suspicion make of it."""
    found = [("scored in both", report.complete)]
    if report.incomplete or report.only_baseline or report.disputed:
        found.append(("worst case", report.worst_case))
    others = (
        ("with what is quarantined", report.with_quarantined),
        ("without what is suspected", report.without_suspected),
    )
    found += [(name, one) for name, one in others if one is not None]
    header: tuple[str, ...] = ("over", "tasks", "difference", "interval", "p")
    if report.complete.table is not None:
        header += ("both pass", "regressed", "improved", "both fail")
    yield markdown_table(header, [(name, *_comparison(one)) for name, one in found])
    confidence = report.complete.result.interval.confidence
    test = "score interval (Tango)"
    if report.complete.method != "tango":
        test = "interval, the outer ends of t over tasks and of Tango's score of the summed losses and gains"
    decides = "it decides nothing here, since the gate file has no margin"
    if report.rules.margin is not None:
        margin, alpha = f"{100 * report.rules.margin:g} points", percent(report.rules.alpha)
        decides = f"its lower end must be above -{margin}, a one-sided test at {alpha}"
    yield f"The pass rate is over tasks with a score in both runs. This is a {percent(confidence)} {test}; {decides}."


def _comparison(one: Comparison) -> tuple[Cell, ...]:
    bounds = one.result.interval
    difference = None if one.difference is None else points(one.difference)
    cells: tuple[Cell, ...] = (
        one.tasks,
        difference,
        f"{points(bounds.low)} to {points(bounds.high)}",
        f"{one.result.p:.4f}",
    )
    if one.table is None:
        return cells
    table = one.table
    return (*cells, table.both_pass, table.regressions, table.improvements, table.both_fail)


def _moved(heading: str, tasks: Sequence[Moved], why: str) -> Iterator[str]:
    if not tasks:
        return
    rows = [
        (plain(task.task_id), percent(task.baseline), percent(task.candidate), plain(counted(task.reasons.items())))
        for task in tasks[:_TASKS_SHOWN]
    ]
    yield f"## {heading} ({len(tasks)})"
    yield markdown_table(("task", "baseline", "candidate", why), rows)
    yield from _more(len(tasks))


def _names(heading: str, tasks: Sequence[str]) -> Iterator[str]:
    if tasks:
        yield f"## {heading} ({len(tasks)})"
        yield markdown_table(("task",), [(plain(task),) for task in tasks[:_TASKS_SHOWN]])
        yield from _more(len(tasks))


def _count(tasks: int) -> str:
    return f"{tasks} task{'s' if tasks > 1 else ''}"


def _more(tasks: int) -> Iterator[str]:
    if tasks > _TASKS_SHOWN:
        yield f"{tasks - _TASKS_SHOWN} more are in the JSON."
