"""Format a comparison of several runs as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_core import MarkdownCell, MarkdownLinks, escape_markdown, markdown_table
from agentbench_report.comparison.compare_report import (
    BaselineComparison,
    ComparedRun,
    CompareReport,
    TaskAcross,
    TaskCell,
)
from agentbench_report.comparison.metrics_text import csv_header, metric_cells, metrics_markdown
from agentbench_report.comparison.paired_text import overridden
from agentbench_report.comparison.refusals import name_list
from agentbench_report.comparison.verdicts import (
    INTERVAL_INCLUDES_ZERO,
    count_tasks,
    includes_zero,
    interval_text,
    p_text,
    same_variant_note,
    sensitivity,
)
from agentbench_report.text import csv_text, p_value, percent, points, safe_cell

MAX_TASKS = 200
"""The maximum number of tasks in the Markdown table. CSV and JSON contain all tasks."""
_MAX_QUARANTINED = 20
"""The maximum number of quarantined tasks listed with reasons. JSON contains all of them."""


def runs_csv(report: CompareReport) -> str:
    """One row per run. Rates are between 0 and 1, differences between -1 and 1.

    ``tasks`` counts the tasks that all runs have, ``rated`` the tasks behind the pass rates, and ``pairs`` the tasks
    behind the difference. ``worst``, ``best``, ``with_quarantined`` and ``without_suspected`` are differences.
    Differences and ratios of cost and effort are per attempt, with the baseline, and have intervals over tasks.
    ``overridden`` lists refusal reasons, ``warnings`` counts warnings, ``quarantined`` counts tasks and ``suspected``
    counts attempts.
    """
    header = ("run", "run_id", "baseline", "tasks", "rated", "planned", "scored", "passed", "unscored", "not_recorded")
    rates = ("pass_rate", "low", "high", "difference", "difference_low", "difference_high", "p", "p_holm", "verdict")
    trust = ("pairs", "incomplete", "worst", "best", "robust", "overridden", "warnings")
    usage = ("cost_usd", "cost_per_pass_usd", "duration_sec", "steps", "tokens")
    excluded = ("quarantined", "suspected", "with_quarantined", "without_suspected")
    columns = (*header, *rates, *trust, *usage, *excluded, *csv_header())
    return csv_text(columns, (_run_cells(run, report) for run in report.runs))


def _run_cells(run: ComparedRun, report: CompareReport) -> list[MarkdownCell]:
    side, against = run.side, run.against
    baseline = "yes" if against is None else "no"
    cells: list[MarkdownCell] = [run.label, side.run_id, baseline, len(report.tasks), _rated(report)]
    cells += [side.planned, side.scored, side.passed, side.unscored, side.not_recorded, _rounded(side.pass_rate)]
    cells += [_rounded(side.interval.low), _rounded(side.interval.high)] if side.interval else [None, None]
    if against is None:
        cells += [None] * 13
    else:
        main = against.estimate
        numbers = (main.difference, main.interval.low, main.interval.high, main.p, against.p_holm)
        cells += [*map(_rounded, numbers), against.verdict, against.complete_pairs, against.incomplete]
        cells += [None if case is None else _rounded(case.difference) for case in (against.worst, against.best)]
        cells += ["yes" if against.robust else "no", " ".join(run.ground for run in against.overridden)]
        cells.append(len(against.warnings))
    cells += [_rounded(side.cost_usd), _rounded(run.cost_per_pass_usd), round(side.duration_sec, 3)]
    cells += [side.steps, side.tokens, len(report.quarantined)]
    if against is None:
        return [*cells, None, None, None, *([None] * len(csv_header()))]
    others = against.with_quarantined, against.without_suspected
    cells += [against.suspected, *(None if case is None else _rounded(case.difference) for case in others)]
    return [*cells, *metric_cells(against.metrics)]


def _rated(report: CompareReport) -> int:
    """The number of tasks with a score in every run. Pass rates are computed over these tasks."""
    return sum(all(cell.scored for cell in task.cells) for task in report.tasks)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def tasks_csv(report: CompareReport) -> str:
    """One row per task, with the passed, scored and missing attempts of each run."""
    columns = [safe_cell(f"{what} {run.label}") for run in report.runs for what in ("passed", "scored", "missing")]
    rows: list[list[MarkdownCell]] = [
        [task.task_id, task.digest, *(n for cell in task.cells for n in (cell.passed, cell.scored, cell.missing))]
        for task in report.tasks
    ]
    return csv_text(["task", "digest", *map(str, columns)], rows)


def as_markdown(report: CompareReport) -> str:
    """The report as Markdown."""
    others = [run for run in report.runs if run.against is not None]
    links = MarkdownLinks()
    parts = [
        f"# {len(report.runs)} runs on {escape_markdown(report.suite)}, against {escape_markdown(report.baseline)}",
        "\n".join(_headline(run, run.against, report) for run in others if run.against is not None),
        *_warnings(report),
        "## Runs",
        _runs(report, links),
        "## Differences",
        _differences(report),
        "## Cost and effort",
        _usage(report),
        metrics_markdown(
            [(run.label, run.against.metrics) for run in others if run.against is not None], "baseline", "variant"
        ),
        "## Tasks",
        _tasks(report),
        links.targets(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _headline(run: ComparedRun, against: BaselineComparison, report: CompareReport) -> str:
    main, label = against.estimate, escape_markdown(run.label)
    details = "".join(f" {escape_markdown(text)}" for text in (against.about_missing, against.about_aside) if text)
    if main.difference is None:
        return f"- {label}: no comparison is possible, because no task has a score in both runs.{details}"
    evidence = f"({interval_text(main.interval)}, Holm-adjusted {p_text(against.p_holm)})"
    if against.verdict == "undecided":
        effect = sensitivity(main, against.detectable)
        return f"- {label}: inconclusive, {points(main.difference)} {evidence}. {effect}{details}"
    size = f"{abs(100 * main.difference):.1f} pp"
    caveat = f" {INTERVAL_INCLUDES_ZERO}" if includes_zero(main.interval) else ""
    baseline = escape_markdown(report.baseline)
    return f"- {label} is **{against.verdict}** than {baseline} by {size} {evidence}.{caveat}{details}"


def _warnings(report: CompareReport) -> list[str]:
    parts = []
    for run in report.runs:
        against = run.against
        if against is None:
            continue
        lines = list(map(overridden, against.overridden))
        lines += [f"- {escape_markdown(warning)}" for warning in against.warnings]
        if against.same_variant:
            lines.append(
                f"- {same_variant_note(against.verdict, same_terms=against.same_terms, confidence=report.confidence)}"
            )
        if against.invalid:
            lines.append(f"- invalid in both runs and not counted: {escape_markdown(name_list(against.invalid))}")
        if lines:
            title = f"{escape_markdown(run.label)} (B) against {escape_markdown(report.baseline)} (A)"
            override = ", **not comparable (overridden by flags)**" if against.overridden else ""
            parts += [f"{title}{override}:", "\n".join(lines)]
    if report.quarantined:
        names = [run.label for run in report.runs]
        lines = [f"- {escape_markdown(task.line(names))}" for task in report.quarantined[:_MAX_QUARANTINED]]
        more = len(report.quarantined) - _MAX_QUARANTINED
        parts += ["Quarantined and not counted:", "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])]
    if report.left_out:
        parts.append(f"Not in all runs and not counted: {count_tasks(report.left_out)}.")
    return parts


def _runs(report: CompareReport, links: MarkdownLinks) -> str:
    header = ("variant", "agent", "model", "run", "attempts", "scored", "passed", "no score", "pass rate")
    note = (
        f"Pass rates are over {count_tasks(_rated(report))} with a score in every run. Differences are paired by task."
    )
    return f"{markdown_table(header, [_run(run, links) for run in report.runs])}\n\n{note}"


def _run(run: ComparedRun, links: MarkdownLinks) -> Sequence[MarkdownCell]:
    side, rate = run.side, "none"
    if side.pass_rate is not None and side.interval is not None:
        rate = f"{percent(side.pass_rate)} ({percent(side.interval.low)} to {percent(side.interval.high)})"
    missing = side.unscored + side.not_recorded
    names = (*map(escape_markdown, (run.label, side.agent, side.model)), links.to(side.run_id, side.directory))
    return (*names, side.planned, side.scored, side.passed, missing, rate)


def _differences(report: CompareReport) -> str:
    interval = f"{100 * report.confidence:.4g}% CI"
    header = ("variant", "pairs", "incomplete", "difference", interval, "p", "Holm p")
    rows = [_difference(run.label, run.against) for run in report.runs if run.against is not None]
    table = markdown_table((*header, "verdict", "worst case", "best case"), rows)
    repeated = any(run.against and run.against.estimate.table is None for run in report.runs)
    methods = (
        "Means over tasks, with Tango score intervals over tasks and sign-flip tests."
        if repeated
        else "Tango score intervals and McNemar mid-p tests."
    )
    family = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
    notes = [f"{methods} Verdicts use p-values adjusted for {family} (Holm). Intervals are not adjusted."]
    if report.omnibus is not None:
        q = f"Q = {report.omnibus.q:.2f}, {p_text(report.omnibus.p)}"
        tasks = count_tasks(report.omnibus.tasks)
        notes.append(f"Test for any difference among the runs (Cochran's Q over {tasks}): {q}.")
    return "\n\n".join([table, *notes])


def _difference(label: str, against: BaselineComparison) -> Sequence[MarkdownCell]:
    main = against.estimate
    if main.difference is None:
        return (escape_markdown(label), against.complete_pairs, against.incomplete, *([None] * 7))
    interval = f"{100 * main.interval.low:+z.1f} to {100 * main.interval.high:+z.1f}"
    cases = [
        None if case is None or case.difference is None else points(case.difference)
        for case in (against.worst, against.best)
    ]
    counts = (escape_markdown(label), against.complete_pairs, against.incomplete, points(main.difference), interval)
    return (*counts, p_value(main.p), p_value(against.p_holm), against.verdict, *cases)


def _usage(report: CompareReport) -> str:
    rows = [
        (
            escape_markdown(run.label),
            run.side.steps,
            f"{run.side.duration_sec:.1f}",
            run.side.tokens,
            f"{run.side.cost_usd:.4f}",
            None if run.cost_per_pass_usd is None else f"{run.cost_per_pass_usd:.4f}",
        )
        for run in report.runs
    ]
    return markdown_table(("variant", "steps", "seconds", "tokens", "USD", "USD per pass"), rows)


def _tasks(report: CompareReport) -> str:
    header = ("task", *(escape_markdown(run.label) for run in report.runs))
    order = sorted(report.tasks, key=lambda task: (_same_result(task), task.task_id))  # differing tasks first
    rows = [(escape_markdown(task.task_id), *map(_cell, task.cells)) for task in order[:MAX_TASKS]]
    more = f"\n\n... and {len(order) - MAX_TASKS} more." if len(order) > MAX_TASKS else ""
    return markdown_table(header, rows) + more


def _same_result(task: TaskAcross) -> bool:
    return len({(cell.passed, cell.scored) for cell in task.cells}) == 1


def _cell(cell: TaskCell) -> str:
    if not cell.scored:
        return "no score"
    if cell.scored + cell.missing == 1:
        return "passed" if cell.passed else "failed"
    missing = f", {cell.missing} without a score" if cell.missing else ""
    return f"{cell.passed} of {cell.scored}{missing}"
