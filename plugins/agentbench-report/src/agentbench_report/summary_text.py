"""Format a summary as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_core import MarkdownCell, MarkdownLinks, escape_markdown, markdown_table, text_bar
from agentbench_report.summary import AlternativeRate, RunSummary, TaskSummary
from agentbench_report.text import counted, csv_text, percent

_MAX_LINKS = 5
"""The maximum number of attempts linked per task."""
_MAX_QUARANTINED = 20
"""The maximum number of quarantined tasks listed with reasons."""


def as_csv(summary: RunSummary) -> str:
    """One row per task."""
    header = ("task", "passed", "scored", "unscored", "not_recorded", "pass_rate", "reasons", "labels")
    used = ("steps", "duration_sec", "tokens", "cost_usd")
    rows: list[list[MarkdownCell]] = []
    for task in summary.tasks:
        rate = None if task.pass_rate is None else round(task.pass_rate, 6)
        row: list[MarkdownCell] = [task.task_id, task.passed, task.scored, task.unscored, task.not_recorded, rate]
        row += [counted(task.reasons.items()), counted(task.labels.items())]
        row += [task.steps, round(task.duration_sec, 3), task.tokens, round(task.cost_usd, 6)]
        rows.append([*row, "yes" if task.quarantined else "no", task.suspected])
    return csv_text((*header, *used, "quarantined", "suspected"), rows)


def as_markdown(summary: RunSummary, base: str = "") -> str:
    """The summary as Markdown. ``base`` is the path to the run directory in links; empty for relative links."""
    links = MarkdownLinks()
    parts = [
        f"# {escape_markdown(summary.variant)} on {escape_markdown(summary.suite)}",
        _identity(summary),
        f"Limited to tasks that match {escape_markdown(summary.selection)}." if summary.selection else "",
        _headline(summary),
        *_alternatives(summary),
        *_warnings(summary),
        "## Attempts",
        _attempts(summary),
    ]
    if summary.at_k:
        parts += ["## Several attempts at a task", _at_k(summary)]
    if summary.reasons:
        parts += ["## Failure reasons", _reasons(summary)]
    if summary.labels:
        rows = [(escape_markdown(name), attempts) for name, attempts in summary.labels.items()]
        parts += ["## Labels", markdown_table(("label", "attempts"), rows)]
    parts += ["## Cost and effort", _usage(summary)]
    parts += _hardest(summary.hardest)
    parts += ["## Tasks", _tasks(summary, base, links), links.targets()]
    return "\n\n".join(filter(None, parts)) + "\n"


def _identity(summary: RunSummary) -> str:
    model = f", model {escape_markdown(summary.model)}" if summary.model else ""
    run_id, agent, harness = map(escape_markdown, (summary.run_id, summary.agent, summary.harness))
    return f"Run {run_id}, agent {agent}{model}, AgentBench {harness}."


def _headline(summary: RunSummary) -> str:
    if summary.pass_rate is None:
        return f"No pass rate: no attempt {'outside quarantined tasks ' if summary.quarantined else ''}was scored."
    tasks = sum(task.scored > 0 and not task.quarantined for task in summary.tasks)
    headline = f"**Pass rate {percent(summary.pass_rate)}** {_basis(summary, tasks)}."
    missing = summary.unscored + summary.not_recorded
    worst, best = summary.pass_rate_if_missing_fail, summary.pass_rate_if_missing_pass
    if not missing or worst is None or best is None:
        return headline
    return (
        f"{headline}\n\nAttempts without a score, not counted as failures: {missing} of {summary.planned}. "
        f"If they counted, the pass rate would be between {percent(worst)} (all fail) and {percent(best)} (all pass)."
    )


def _basis(rate: RunSummary | AlternativeRate, tasks: int) -> str:
    """The attempts or tasks behind a pass rate, and its interval."""
    bounds = rate.interval
    if bounds is None:
        return "(no scored attempts)"
    interval = f"{percent(bounds.low)} to {percent(bounds.high)}"
    if rate.interval_method == "Wilson":
        return f"({rate.passed} of {rate.scored} scored attempts), {bounds.confidence:.0%} CI {interval} (Wilson)"
    return f"(mean over {tasks} task{'' if tasks == 1 else 's'}), {bounds.confidence:.0%} CI {interval} (over tasks)"


def _alternatives(summary: RunSummary) -> list[str]:
    """The headline rate including quarantined tasks, and excluding suspect attempts."""
    parts = []
    if summary.with_quarantined is not None:
        quarantined = {task.task_id: task.quarantined for task in summary.tasks if task.quarantined}
        several = len(quarantined) > 1
        tasks = sum(task.scored > 0 for task in summary.tasks)
        parts.append(
            f"{len(quarantined)} of {len(summary.tasks)} tasks {'are' if several else 'is'} quarantined and not "
            f"counted. Including {'them' if several else 'it'}: {_rate(summary.with_quarantined, tasks)}."
        )
        lines = [
            f"- {escape_markdown(task)}: {escape_markdown(reason)}"
            for task, reason in list(quarantined.items())[:_MAX_QUARANTINED]
        ]
        more = len(quarantined) - _MAX_QUARANTINED
        parts.append("\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])]))
    without = summary.without_suspected
    if without is not None:
        tasks = sum(task.scored > task.suspected and not task.quarantined for task in summary.tasks)
        parts.append(
            f"Excluding {without.attempts} suspect attempt{'s' if without.attempts > 1 else ''}: "
            f"{_rate(without, tasks)}. Tasks with suspect attempts: {_names(summary.suspected)}."
        )
    return parts


def _rate(rate: AlternativeRate, tasks: int) -> str:
    share = "no pass rate" if rate.pass_rate is None else percent(rate.pass_rate)
    return f"{share} {_basis(rate, tasks)}"


def _warnings(summary: RunSummary) -> list[str]:
    warnings = []
    if summary.status != "completed":
        warnings.append(f"The run is {summary.status}, so these results are incomplete and may change.")
    if summary.unsealed:
        records = "1 record is" if summary.unsealed == 1 else f"{summary.unsealed} records are"
        warnings.append(f"{records} not in the event log and cannot be verified.")
    if summary.changes:
        changes = "a change" if len(summary.changes) == 1 else f"{len(summary.changes)} changes, for example"
        warnings.append(f"The run was resumed after {changes}: {escape_markdown(summary.changes[0])}.")
    if summary.replayed:
        warnings.append(
            f"Replayed attempts, which are not independent samples: {summary.replayed} of {summary.recorded}."
        )
    if summary.flaky:
        warnings.append(f"Tasks with both passed and failed attempts: {_names(summary.flaky)}.")
    if summary.invalid:
        warnings.append(
            f"Invalid tasks, whose failing command passed before the agent started: {_names(summary.invalid)}."
        )
    return warnings


def _names(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
    return ", ".join(map(escape_markdown, tasks[:10])) + more


def _attempts(summary: RunSummary) -> str:
    header = ("planned", "scored", "passed", "failed", "infrastructure errors", "not recorded")
    counts = (summary.scored, summary.passed, summary.failed, summary.unscored, summary.not_recorded)
    return markdown_table(header, [(summary.planned, *counts)])


def _reasons(summary: RunSummary) -> str:
    most = max(item.attempts for item in summary.reasons)
    rows = [
        (
            escape_markdown(item.reason),
            "failure" if item.scored else "infrastructure error",
            item.attempts,
            text_bar(item.attempts / most),
        )
        for item in summary.reasons
    ]
    return markdown_table(("reason", "counts as", "attempts", ""), rows)


def _at_k(summary: RunSummary) -> str:
    rows = [(at.k, percent(at.pass_at_k), percent(at.pass_hat_k), at.tasks, at.excluded or None) for at in summary.at_k]
    header = ("k", "at least one of k passes", "all k pass", "tasks", "tasks with fewer attempts")
    return markdown_table(header, rows)


def _usage(summary: RunSummary) -> str:
    per_pass = "" if summary.cost_per_pass_usd is None else f"{summary.cost_per_pass_usd:.4f}"
    header = ("steps", "seconds", "tokens", "USD", "USD per pass", "maximum USD")
    used = (summary.steps, f"{summary.duration_sec:.1f}", summary.tokens, f"{summary.cost_usd:.4f}")
    return markdown_table(header, [(*used, per_pass, f"{summary.spent_usd:.4f}")])


def _hardest(tasks: Sequence[TaskSummary]) -> list[str]:
    if not tasks:
        return []
    rows = [
        (
            escape_markdown(task.task_id),
            f"{task.passed} of {task.scored}",
            escape_markdown(counted(task.reasons.items())),
        )
        for task in tasks
    ]
    return ["## Hardest tasks", markdown_table(("task", "passed", "reasons"), rows)]


def _tasks(summary: RunSummary, base: str, links: MarkdownLinks) -> str:
    header = ("task", "passed", "scored", "no score", "reasons", "labels", "steps", "seconds", "tokens", "USD")
    rows = []
    for task in summary.tasks:
        missing = task.unscored + task.not_recorded
        reasons, labels = (escape_markdown(counted(counts.items())) for counts in (task.reasons, task.labels))
        labels = ", ".join(filter(None, (labels, "quarantined" if task.quarantined else "")))
        used = (task.steps, f"{task.duration_sec:.1f}", task.tokens, f"{task.cost_usd:.4f}")
        rows.append((_linked(task, base, links), task.passed, task.scored, missing, reasons, labels, *used))
    return markdown_table(header, rows)


def _linked(task: TaskSummary, base: str, links: MarkdownLinks) -> str:
    """The name of a task with links to the evidence of its attempts."""
    if not task.directories:
        return escape_markdown(task.task_id)
    paths = [f"{base}/{directory}" if base else directory for directory in task.directories]
    first = links.to(task.task_id, paths[0])
    others = [links.to(f"@{path.rpartition('@')[2]}", path) for path in paths[1:_MAX_LINKS]]
    return " ".join([first, *others, *(["..."] if len(paths) > _MAX_LINKS else [])])
