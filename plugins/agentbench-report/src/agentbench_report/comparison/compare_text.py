"""A comparison of many runs as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_report.comparison.comparable import some
from agentbench_report.comparison.compare_report import Against, Compared, CompareReport, TaskAcross, TaskCell
from agentbench_report.comparison.paired_text import overridden
from agentbench_report.comparison.verdicts import (
    ROOM_FOR_NONE,
    between,
    could_be_seen,
    of_one_variant,
    p_of,
    room_for_none,
    some_tasks,
)
from agentbench_report.text import Cell, Links, csv_text, markdown_table, p_value, percent, plain, points, safe_cell

TASKS_SHOWN = 200
"""Tasks in the Markdown table; CSV and JSON have all."""
_ASIDE = 20
"""Quarantined tasks whose reasons are given; JSON has all."""


def runs_csv(report: CompareReport) -> str:
    """One row per run; rates are between 0 and 1, differences between -1 and 1.

    ``tasks`` are those that all runs have, ``rated`` those of them that the pass rates are over, ``pairs`` those behind
    the difference. ``worst`` and ``best`` are differences, ``overridden`` the grounds, ``warnings`` their number;
    ``quarantined`` are tasks and ``suspected`` attempts, and the columns after them the differences with and without.
    """
    header = ("run", "run_id", "baseline", "tasks", "rated", "planned", "scored", "passed", "unscored", "not_recorded")
    rates = ("pass_rate", "low", "high", "difference", "difference_low", "difference_high", "p", "p_holm", "verdict")
    trust = ("pairs", "incomplete", "worst", "best", "robust", "overridden", "warnings")
    took = ("cost_usd", "cost_per_pass_usd", "duration_sec", "steps", "tokens")
    aside = ("quarantined", "suspected", "with_quarantined", "without_suspected")
    return csv_text((*header, *rates, *trust, *took, *aside), (_run_cells(one, report) for one in report.runs))


def _run_cells(one: Compared, report: CompareReport) -> list[Cell]:
    side, against = one.side, one.against
    baseline = "yes" if against is None else "no"
    cells: list[Cell] = [one.label, side.run_id, baseline, len(report.tasks), _rated(report)]
    cells += [side.planned, side.scored, side.passed, side.unscored, side.not_recorded, _rounded(side.pass_rate)]
    cells += [_rounded(side.interval.low), _rounded(side.interval.high)] if side.interval else [None, None]
    if against is None:
        cells += [None] * 13
    else:
        found = against.estimate
        numbers = (found.difference, found.interval.low, found.interval.high, found.p, against.p_holm)
        cells += [*map(_rounded, numbers), against.verdict, against.complete_pairs, against.incomplete]
        cells += [None if case is None else _rounded(case.difference) for case in (against.worst, against.best)]
        cells += ["yes" if against.robust else "no", " ".join(one.ground for one in against.overridden)]
        cells.append(len(against.warnings))
    cells += [_rounded(side.cost_usd), _rounded(one.cost_per_pass_usd), round(side.duration_sec, 3)]
    cells += [side.steps, side.tokens, len(report.quarantined)]
    if against is None:
        return [*cells, None, None, None]
    others = against.with_quarantined, against.without_suspected
    return [*cells, against.suspected, *(None if case is None else _rounded(case.difference) for case in others)]


def _rated(report: CompareReport) -> int:
    """Tasks with a score in every run: those that pass rates are over."""
    return sum(all(cell.scored for cell in task.cells) for task in report.tasks)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def tasks_csv(report: CompareReport) -> str:
    """One row per task; per run how many of its scored attempts passed, and how many are missing."""
    columns = [safe_cell(f"{what} {one.label}") for one in report.runs for what in ("passed", "scored", "missing")]
    rows: list[list[Cell]] = [
        [task.task_id, task.digest, *(n for cell in task.cells for n in (cell.passed, cell.scored, cell.missing))]
        for task in report.tasks
    ]
    return csv_text(["task", "digest", *map(str, columns)], rows)


def as_markdown(report: CompareReport) -> str:
    """The report for people."""
    others = [one for one in report.runs if one.against is not None]
    links = Links()
    parts = [
        f"# {len(report.runs)} runs on {plain(report.suite)}, against {plain(report.baseline)}",
        "\n".join(_headline(one, one.against, report) for one in others if one.against is not None),
        *_cautions(report),
        "## Runs",
        _runs(report, links),
        "## Differences",
        _differences(report),
        "## What it took",
        _took(report),
        "## Tasks",
        _tasks(report),
        links.places(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _headline(one: Compared, against: Against, report: CompareReport) -> str:
    found = against.estimate
    missing = "".join(f" {plain(text)}" for text in (against.about_missing, against.about_aside) if text)
    if found.difference is None:
        return f"- {plain(one.label)}: nothing can be said, no task has a score in both runs.{missing}"
    said = f"({between(found.interval)}, Holm-adjusted {p_of(against.p_holm)})"
    if against.verdict == "undecided":
        seen = could_be_seen(found, against.detectable)
        return f"- {plain(one.label)}: no difference can be told, {points(found.difference)} {said}. {seen}{missing}"
    by = f"{abs(100 * found.difference):.1f} points"
    doubt = f" {ROOM_FOR_NONE}" if room_for_none(found.interval) else ""
    return (
        f"- {plain(one.label)} is **{against.verdict}** than {plain(report.baseline)} by {by} {said}.{doubt}{missing}"
    )


def _cautions(report: CompareReport) -> list[str]:
    parts = []
    for one in report.runs:
        against = one.against
        if against is None:
            continue
        lines = list(map(overridden, against.overridden))
        lines += [f"- {plain(warning)}" for warning in against.warnings]
        if against.same_variant:
            lines.append(
                f"- {of_one_variant(against.verdict, same_terms=against.same_terms, confidence=report.confidence)}"
            )
        if against.invalid:
            lines.append(f"- invalid in both runs, and in no number of this comparison: {plain(some(against.invalid))}")
        if lines:
            about = f"{plain(one.label)} (B) against {plain(report.baseline)} (A)"
            loud = ", **not comparable, and compared all the same**" if against.overridden else ""
            parts += [f"{about}{loud}:", "\n".join(lines)]
    if report.quarantined:
        names = [one.label for one in report.runs]
        lines = [f"- {plain(task.line(names))}" for task in report.quarantined[:_ASIDE]]
        lines += [f"- and {len(report.quarantined) - _ASIDE} more"] if len(report.quarantined) > _ASIDE else []
        parts += ["Quarantined, and in none of the numbers below:", "\n".join(lines)]
    if report.left_out:
        parts.append(f"Not in all runs, and in none of the numbers below: {some_tasks(report.left_out)}.")
    return parts


def _runs(report: CompareReport, links: Links) -> str:
    header = ("variant", "agent", "model", "run", "attempts", "scored", "passed", "missing", "pass rate")
    note = f"Pass rates are over {some_tasks(_rated(report))} with a score in every run; differences below go by pairs."
    return f"{markdown_table(header, [_run(one, links) for one in report.runs])}\n\n{note}"


def _run(one: Compared, links: Links) -> Sequence[Cell]:
    side, rate = one.side, "none"
    if side.pass_rate is not None and side.interval is not None:
        rate = f"{percent(side.pass_rate)} ({percent(side.interval.low)} to {percent(side.interval.high)})"
    missing = side.unscored + side.not_recorded
    what = (*map(plain, (one.label, side.agent, side.model)), links.to(side.run_id, side.directory))
    return (*what, side.planned, side.scored, side.passed, missing, rate)


def _differences(report: CompareReport) -> str:
    interval = f"{100 * report.confidence:.4g}% interval"
    header = ("variant", "pairs", "incomplete", "difference", interval, "p", "Holm p")
    rows = [_difference(one.label, one.against) for one in report.runs if one.against is not None]
    table = markdown_table((*header, "verdict", "worst case", "best case"), rows)
    repeated = any(one.against and one.against.estimate.table is None for one in report.runs)
    how = (
        "Means over tasks, with Tango's score intervals over tasks and sign-flip tests."
        if repeated
        else "Tango's score intervals and McNemar's mid-p tests."
    )
    family = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
    notes = [f"{how} Verdicts go by p adjusted for {family} (Holm); each interval stands for itself."]
    if report.omnibus is not None:
        q = f"Q = {report.omnibus.q:.2f}, {p_of(report.omnibus.p)}"
        notes.append(f"Whether any of the runs differ (Cochran's Q over {report.omnibus.tasks} tasks): {q}.")
    return "\n\n".join([table, *notes])


def _difference(label: str, against: Against) -> Sequence[Cell]:
    found = against.estimate
    if found.difference is None:
        return (plain(label), against.complete_pairs, against.incomplete, *([None] * 7))
    interval = f"{100 * found.interval.low:+z.1f} to {100 * found.interval.high:+z.1f}"
    cases = [
        None if case is None or case.difference is None else points(case.difference)
        for case in (against.worst, against.best)
    ]
    counts = (plain(label), against.complete_pairs, against.incomplete, points(found.difference), interval)
    return (*counts, p_value(found.p), p_value(against.p_holm), against.verdict, *cases)


def _took(report: CompareReport) -> str:
    rows = [
        (
            plain(one.label),
            one.side.steps,
            f"{one.side.duration_sec:.1f}",
            one.side.tokens,
            f"{one.side.cost_usd:.4f}",
            None if one.cost_per_pass_usd is None else f"{one.cost_per_pass_usd:.4f}",
        )
        for one in report.runs
    ]
    return markdown_table(("variant", "steps", "seconds", "tokens", "USD", "USD per pass"), rows)


def _tasks(report: CompareReport) -> str:
    header = ("task", *(plain(one.label) for one in report.runs))
    # What tells variants apart comes first; a long list of what all of them can do says little.
    order = sorted(report.tasks, key=lambda task: (_alike(task), task.task_id))
    rows = [(plain(task.task_id), *map(_cell, task.cells)) for task in order[:TASKS_SHOWN]]
    more = f"\n\n... and {len(order) - TASKS_SHOWN} more." if len(order) > TASKS_SHOWN else ""
    return markdown_table(header, rows) + more


def _alike(task: TaskAcross) -> bool:
    return len({(cell.passed, cell.scored) for cell in task.cells}) == 1


def _cell(cell: TaskCell) -> str:
    if not cell.scored:
        return "missing"
    if cell.scored + cell.missing == 1:
        return "passed" if cell.passed else "failed"
    missing = f", {cell.missing} missing" if cell.missing else ""
    return f"{cell.passed} of {cell.scored}{missing}"
