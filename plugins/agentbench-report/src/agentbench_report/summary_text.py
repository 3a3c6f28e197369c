"""A summary as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_report.summary import Beside, RunSummary, TaskSummary
from agentbench_report.text import Cell, Links, counted, csv_text, markdown_table, percent, plain

_LINKS = 5
"""Attempts at a task that are linked one by one."""
_ASIDE = 20
"""Quarantined tasks whose reasons are given."""
_BAR = 20
"""Characters of the longest bar."""


def as_csv(summary: RunSummary) -> str:
    """One row per task."""
    header = ("task", "passed", "scored", "unscored", "not_recorded", "pass_rate", "reasons", "labels")
    used = ("steps", "duration_sec", "tokens", "cost_usd")
    rows: list[list[Cell]] = []
    for task in summary.tasks:
        rate = None if task.pass_rate is None else round(task.pass_rate, 6)
        row: list[Cell] = [task.task_id, task.passed, task.scored, task.unscored, task.not_recorded, rate]
        row += [counted(task.reasons.items()), counted(task.labels.items())]
        row += [task.steps, round(task.duration_sec, 3), task.tokens, round(task.cost_usd, 6)]
        rows.append([*row, "yes" if task.quarantined else "no", task.suspected])
    return csv_text((*header, *used, "quarantined", "suspected"), rows)


def as_markdown(summary: RunSummary, base: str = "") -> str:
    """The report for people. ``base`` is where the run directory lies, seen from where the report is read."""
    links = Links()
    parts = [
        f"# {plain(summary.variant)} on {plain(summary.suite)}",
        _identity(summary),
        _headline(summary),
        *_beside(summary),
        *_warnings(summary),
        "## Attempts",
        _attempts(summary),
    ]
    if summary.at_k:
        parts += ["## Several attempts at a task", _at_k(summary)]
    if summary.reasons:
        parts += ["## Failure reasons", _reasons(summary)]
    if summary.labels:
        rows_ = [(plain(name), attempts) for name, attempts in summary.labels.items()]
        parts += ["## Labels", markdown_table(("label", "attempts"), rows_)]
    parts += ["## What it took", _took(summary)]
    parts += _hardest(summary.hardest)
    parts += ["## Tasks", _tasks(summary, base, links), links.places()]
    return "\n\n".join(filter(None, parts)) + "\n"


def _identity(summary: RunSummary) -> str:
    model = f", model {plain(summary.model)}" if summary.model else ""
    return f"Run {plain(summary.run_id)}, agent {plain(summary.agent)}{model}, AgentBench {plain(summary.harness)}."


def _headline(summary: RunSummary) -> str:
    if summary.pass_rate is None:
        return f"No pass rate: no attempt {'that counts ' if summary.quarantined else ''}was scored."
    tasks = sum(task.scored > 0 and not task.quarantined for task in summary.tasks)
    headline = f"**Pass rate {percent(summary.pass_rate)}** {_counted(summary, tasks)}."
    missing = summary.unscored + summary.not_recorded
    worst, best = summary.pass_rate_if_missing_fail, summary.pass_rate_if_missing_pass
    if not missing or worst is None or best is None:
        return headline
    without = f"{missing} of {summary.planned} attempts have no score."
    return (
        f"{headline}\n\n{without} Had they all failed, the pass rate would be {percent(worst)}; "
        f"all passed, {percent(best)}."
    )


def _counted(rate: RunSummary | Beside, tasks: int) -> str:
    """What a pass rate is over, and its interval."""
    bounds = rate.interval
    if bounds is None:
        return "(no scored attempt)"
    between = f"{percent(bounds.low)} to {percent(bounds.high)}"
    if rate.interval_method == "Wilson":
        return f"({rate.passed} of {rate.scored} scored attempts), {bounds.confidence:.0%} Wilson interval {between}"
    return f"(mean over {tasks} tasks), {bounds.confidence:.0%} interval over tasks {between}"


def _beside(summary: RunSummary) -> list[str]:
    """The headline with what is quarantined, and without what is suspected."""
    said = []
    if summary.with_quarantined is not None:
        aside = {task.task_id: task.quarantined for task in summary.tasks if task.quarantined}
        several, them = len(aside) > 1, "them" if len(aside) > 1 else "it"
        tasks = sum(task.scored > 0 for task in summary.tasks)
        said.append(
            f"{len(aside)} of {len(summary.tasks)} tasks {'are' if several else 'is'} quarantined, and not counted. "
            f"With {them}: {_told(summary.with_quarantined, tasks)}."
        )
        lines = [f"- {plain(task)}: {plain(reason)}" for task, reason in list(aside.items())[:_ASIDE]]
        more = [f"- and {len(aside) - _ASIDE} more"] if len(aside) > _ASIDE else []
        said.append("\n".join([*lines, *more]))
    without = summary.without_suspected
    if without is not None:
        several = without.attempts > 1
        tasks = sum(task.scored > task.suspected and not task.quarantined for task in summary.tasks)
        said.append(
            f"Without {without.attempts} suspected attempt{'s' if several else ''}: {_told(without, tasks)}. "
            f"Suspected on: {_names(summary.suspected)}."
        )
    return said


def _told(rate: Beside, tasks: int) -> str:
    share = "no pass rate" if rate.pass_rate is None else percent(rate.pass_rate)
    return f"{share} {_counted(rate, tasks)}"


def _warnings(summary: RunSummary) -> list[str]:
    said = []
    if summary.status != "completed":
        said.append(f"The run is {summary.status}: what is not there yet may change everything below.")
    if summary.unsealed:
        said.append(
            f"No event of the run carries {summary.unsealed} of the records: nothing says that they are as they were "
            "written."
        )
    if summary.changes:
        what = f"{len(summary.changes)} things had changed, such as: {plain(summary.changes[0])}"
        said.append(f"The run was resumed although {what}.")
    if summary.replayed:
        said.append(f"{summary.replayed} of {summary.recorded} attempts were replayed: they are no fresh samples.")
    if summary.flaky:
        said.append(f"Sometimes passed, sometimes not: {_names(summary.flaky)}.")
    if summary.invalid:
        said.append(f"Nothing to repair, the check passed before any agent came: {_names(summary.invalid)}.")
    return said


def _names(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
    return ", ".join(map(plain, tasks[:10])) + more


def _attempts(summary: RunSummary) -> str:
    header = ("planned", "scored", "passed", "failed", "unscored", "not recorded")
    counts = (summary.scored, summary.passed, summary.failed, summary.unscored, summary.not_recorded)
    return markdown_table(header, [(summary.planned, *counts)])


def _reasons(summary: RunSummary) -> str:
    most = max(item.attempts for item in summary.reasons)
    rows = [
        (plain(item.reason), "fail" if item.scored else "missing", item.attempts, _bar(item.attempts / most))
        for item in summary.reasons
    ]
    return markdown_table(("reason", "counts as", "attempts", ""), rows)


def _bar(share: float) -> str:
    return "\N{FULL BLOCK}" * max(1, round(share * _BAR))


def _at_k(summary: RunSummary) -> str:
    rows = [(at.k, percent(at.pass_at_k), percent(at.pass_hat_k), at.tasks, at.excluded or None) for at in summary.at_k]
    header = ("k", "at least one of k passes", "all k pass", "tasks", "tasks with fewer")
    return markdown_table(header, rows)


def _took(summary: RunSummary) -> str:
    per_pass = "" if summary.cost_per_pass_usd is None else f"{summary.cost_per_pass_usd:.4f}"
    header = ("steps", "seconds", "tokens", "USD", "USD per pass", "USD at most")
    used = (summary.steps, f"{summary.duration_sec:.1f}", summary.tokens, f"{summary.cost_usd:.4f}")
    return markdown_table(header, [(*used, per_pass, f"{summary.spent_usd:.4f}")])


def _hardest(tasks: Sequence[TaskSummary]) -> list[str]:
    if not tasks:
        return []
    rows = [
        (plain(task.task_id), f"{task.passed} of {task.scored}", plain(counted(task.reasons.items()))) for task in tasks
    ]
    return ["## Hardest tasks", markdown_table(("task", "passed", "reasons"), rows)]


def _tasks(summary: RunSummary, base: str, links: Links) -> str:
    header = ("task", "passed", "scored", "missing", "reasons", "labels", "steps", "seconds", "tokens", "USD")
    rows = []
    for task in summary.tasks:
        missing = task.unscored + task.not_recorded
        reasons, labels = (plain(counted(counts.items())) for counts in (task.reasons, task.labels))
        labels = ", ".join(filter(None, (labels, "quarantined" if task.quarantined else "")))
        used = (task.steps, f"{task.duration_sec:.1f}", task.tokens, f"{task.cost_usd:.4f}")
        rows.append((_linked(task, base, links), task.passed, task.scored, missing, reasons, labels, *used))
    return markdown_table(header, rows)


def _linked(task: TaskSummary, base: str, links: Links) -> str:
    """The name of a task, as a link to the evidence of its attempts."""
    if not task.directories:
        return plain(task.task_id)
    places = [f"{base}/{directory}" if base else directory for directory in task.directories]
    first = links.to(task.task_id, places[0])
    others = [links.to(f"@{place.rpartition('@')[2]}", place) for place in places[1:_LINKS]]
    return " ".join([first, *others, *(["..."] if len(places) > _LINKS else [])])
