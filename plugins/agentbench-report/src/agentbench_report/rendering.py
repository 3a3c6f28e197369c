"""A summary as Markdown, CSV or JSON. Names come from task packs and are hostile until escaped."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Sequence

from tabulate import tabulate

from agentbench_core import dump
from agentbench_report.summary import RunSummary, TaskSummary

Cell = str | int | float

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What begins a formula; the last four are the full-width forms, which spreadsheets take for the same."""


def as_json(summary: RunSummary) -> str:
    """Every field of the summary; rates are between 0 and 1, durations seconds, costs US dollars."""
    return json.dumps(dump(summary), indent=2) + "\n"


def as_csv(summary: RunSummary) -> str:
    """One row per task. Numbers are numbers; text that a spreadsheet would run as a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = ("task", "passed", "scored", "unscored", "not_recorded", "reasons")
    writer.writerow([*header, "steps", "duration_sec", "tokens", "cost_usd"])
    for task in summary.tasks:
        row: list[Cell] = [task.task_id, task.passed, task.scored, task.unscored, task.not_recorded, _reasons(task)]
        row += [task.steps, round(task.duration_sec, 3), task.tokens, round(task.cost_usd, 6)]
        writer.writerow([safe_cell(cell) for cell in row])
    return out.getvalue()


def safe_cell(value: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.

    Numbers stay numbers, so that negative ones survive. Control characters are dropped, since CSV is printed on
    terminals too, except tab and line ends, which quoting holds. Source: OWASP, CSV Injection (CWE-1236).
    """
    if not isinstance(value, str):
        return value
    text = "".join(c for c in value if c in "\t\r\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    dangerous = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if dangerous else text


def as_markdown(summary: RunSummary) -> str:
    """Headline, what is missing, failure reasons, and the table of tasks."""
    what = f"{plain(summary.variant)} on {plain(summary.suite)}"
    parts = [f"# {what}", _identity(summary), _headline(summary), "## Attempts", _attempts(summary)]
    if summary.replayed:
        parts.append(f"{summary.replayed} of {summary.recorded} attempts were replayed: they are no fresh samples.")
    if summary.reasons:
        rows = [(item.reason, "fail" if item.scored else "missing", item.attempts) for item in summary.reasons]
        parts += ["## Failure reasons", _table(("reason", "counts as", "attempts"), rows)]
    parts += ["## Tasks", _tasks(summary)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text from outside for a Markdown line: control characters gone, markup escaped."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return re.sub(r"([\\`*\[\]<>|&!~])", r"\\\1", printable)


def _identity(summary: RunSummary) -> str:
    return f"Run {plain(summary.run_id)}, agent {plain(summary.agent)}, AgentBench {plain(summary.harness)}."


def _headline(summary: RunSummary) -> str:
    if summary.pass_rate is None:
        return "No pass rate: no attempt was scored."
    rate = f"**Pass rate {summary.pass_rate:.1%}**"
    if summary.interval is None:
        headline = f"{rate} (mean over tasks). No interval: {summary.interval_note}."
    else:
        bounds = summary.interval
        interval = f"{bounds.confidence:.0%} Wilson interval {bounds.low:.1%} to {bounds.high:.1%}"
        headline = f"{rate} ({summary.passed} of {summary.scored} scored attempts), {interval}."
    missing = summary.unscored + summary.not_recorded
    if not missing:
        return headline
    worst, best = summary.pass_rate_if_missing_fail, summary.pass_rate_if_missing_pass
    without = f"{missing} of {summary.planned} attempts have no score."
    return f"{headline}\n\n{without} Had they all failed, the pass rate would be {worst:.1%}; all passed, {best:.1%}."


def _attempts(summary: RunSummary) -> str:
    header = ("planned", "scored", "passed", "failed", "unscored", "not recorded")
    counts = (summary.scored, summary.passed, summary.failed, summary.unscored, summary.not_recorded)
    return _table(header, [(summary.planned, *counts)])


def _tasks(summary: RunSummary) -> str:
    header = ("task", "passed", "scored", "missing", "reasons", "steps", "seconds", "tokens", "USD")
    rows = []
    for task in summary.tasks:
        missing = task.unscored + task.not_recorded
        used = (task.steps, f"{task.duration_sec:.1f}", task.tokens, f"{task.cost_usd:.4f}")
        rows.append((plain(task.task_id), task.passed, task.scored, missing, _reasons(task), *used))
    return _table(header, rows)


def _reasons(task: TaskSummary) -> str:
    return ", ".join(reason if times == 1 else f"{reason} x{times}" for reason, times in task.reasons.items())


def _table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Numbers are aligned by what they are, and never guessed from text: a task may be called 1e5."""
    align = [
        "right" if all(re.fullmatch(r"[\d.]+", str(row[i])) for row in rows) else "left" for i in range(len(header))
    ]
    align[0] = "left" if header[0] in ("task", "reason") else align[0]
    return tabulate(rows, headers=header, tablefmt="github", disable_numparse=True, colalign=align if rows else None)
