"""The output of mining: the funnel, the plan, the table of candidates, and the steps for one commit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbench_core import dump, quantity
from agentbench_core.harness import shortened, table_lines
from agentbench_tasks.mining.funnel import Funnel
from agentbench_tasks.mining.ledger import Entry, Ledger
from agentbench_tasks.mining.roles import role
from agentbench_tasks.mining.values import Commit

_GUESSED_SECONDS = 60.0
WEAK = "weak_verdict"
_REASON = 100


def funnel_lines(funnel: Funnel, commits: int) -> Sequence[str]:
    """One line for each stage, with the number of commits that are left."""
    rows = [("commits on the main line", str(commits)), *((stage.name, str(stage.left)) for stage in funnel.counts[1:])]
    return table_lines(("STAGE", "COMMITS LEFT"), rows)


def plan(
    funnel: Funnel, ledger: Ledger, new: Sequence[Commit], commits: int, *, limit: int | None, workers: int
) -> Sequence[str]:
    """The funnel, the new candidates, and an estimate of the time with its basis."""
    measured = _measured(ledger)
    seconds = statistics.mean(measured) if measured else _GUESSED_SECONDS
    basis = (
        f"{seconds:.0f} s per commit, the mean of {quantity(len(measured), 'commit')} tried before"
        if measured
        else (f"{seconds:.0f} s per commit, a guess until commits have been tried")
    )
    sizes = [quantity(len(commit.files), "file") for commit in new]
    rows = [
        (commit.id[:10], commit.date[:10], size, shortened(commit.subject, _REASON))
        for commit, size in zip(new, sizes, strict=True)
    ]
    minutes = seconds * len(new) / workers / 60
    until = f", or fewer if --limit {limit} is reached first" if limit else ""
    return [
        *funnel_lines(funnel, commits),
        "",
        *(table_lines(("COMMIT", "DATE", "SIZE", "SUBJECT"), rows) if rows else ["no new candidates"]),
        "",
        f"candidates without a result: {len(new)} of {len(funnel.candidates)}",
        f"estimated time: {minutes:.0f} min with {quantity(workers, 'worker')} ({basis}){until}",
    ]


def plan_plain(funnel: Funnel, ledger: Ledger, new: Sequence[Commit], *, workers: int) -> dict[str, Any]:
    """The plan as plain data."""
    measured = _measured(ledger)
    seconds = statistics.mean(measured) if measured else _GUESSED_SECONDS
    return {
        "funnel": [dump(stage) for stage in funnel.counts],
        "new": [{"commit": commit.id, "date": commit.date, "subject": commit.subject} for commit in new],
        "estimated_seconds": round(seconds * len(new) / workers, 1),
        "measured_commits": len(measured),
    }


def _measured(ledger: Ledger) -> Sequence[float]:
    """The seconds spent on each commit that was tried."""
    return [entry.seconds for entry in ledger.entries.values() if entry.seconds]


def table(entries: Sequence[Entry]) -> Sequence[str]:
    """One row for each candidate: its task, or its code and reason."""
    rows = [
        (
            entry.commit[:10],
            entry.date[:10],
            "task" if entry.task else entry.code,
            shortened(_outcome(entry), _REASON),
        )
        for entry in entries
    ]
    return table_lines(("COMMIT", "DATE", "RESULT", "REASON"), rows)


def _outcome(entry: Entry) -> str:
    if not entry.task:
        return entry.reason
    proposals = quantity(entry.proposals, "proposal")
    labels = [f"{label} ({proposals})" if label == WEAK else label for label in entry.labels]
    tests = f"{entry.fail_to_pass} fail-to-pass, {entry.pass_to_pass} pass-to-pass tests"
    return f"{entry.task}: {tests}{'; ' + ', '.join(labels) if labels else ''}"


def summary(
    shown: Sequence[Entry], results: Sequence[Entry], codes: Mapping[str, int], built: int, ledger: Path
) -> Sequence[str]:
    """The totals, and the next steps."""
    tasks = [entry for entry in shown if entry.task]
    new = sum(bool(entry.task) for entry in results)
    weak = sorted((entry for entry in tasks if WEAK in entry.labels), key=lambda entry: -entry.proposals)
    suite = ledger.parent
    lines = [
        f"{len(tasks)} of {len(shown)} candidates with a result became tasks in {suite} ({new} new)",
        *([f"rejected: {', '.join(f'{n} {code}' for code, n in sorted(codes.items()))}"] if codes else []),
        *([f"environments resolved: {built}"] if built else []),
    ]
    if weak:
        proposed = sum(entry.proposals > 0 for entry in weak)
        lines.append(f"tasks with weak verdicts: {len(weak)}; with proposals to strengthen them: {proposed}")
        lines.append(f"  agentbench tasks strengthen {suite / weak[0].task}")
    if tasks:
        lines.append(
            f"next: agentbench run --suite {suite.name} --tasks {suite.parent} --agent scripted --sandbox docker"
        )
    return lines


def as_plain(funnel: Funnel, shown: Sequence[Entry], results: Sequence[Entry], built: int) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "funnel": [dump(stage) for stage in funnel.counts],
        "candidates": [dump(entry) for entry in shown],
        "new": [entry.commit for entry in results],
        "environments_resolved": built,
    }


def story(commit: Commit, funnel: Funnel, entry: Entry | None) -> Sequence[str]:
    """The result for one commit, step by step."""
    lines = [f"commit  {commit.id}", f"date    {commit.date}", f"subject {commit.subject}", "", "files:"]
    lines += [f"  {role(change.path):6}  {change.path} (+{change.added} -{change.removed})" for change in commit.files]
    rejection = funnel.rejected.get(commit.id)
    lines.append("")
    if rejection is not None:
        lines.append(f"{rejection.code}: {rejection.reason}")
    if rejection is not None and not (entry and entry.task):  # a commit may be reverted after it became a task
        return lines
    if entry is None:
        lines.append("candidate: not tried yet")
    else:
        lines += [f"- {step}" for step in entry.steps]
        lines.append(f"task {entry.task}: {entry.reason}" if entry.task else f"{entry.code}: {entry.reason}")
    return lines


def story_plain(commit: Commit, funnel: Funnel, entry: Entry | None) -> dict[str, Any]:
    """The steps as plain data."""
    rejection = funnel.rejected.get(commit.id)
    return {
        "commit": dump(commit),
        "rejected": dump(rejection) if rejection else None,
        "entry": dump(entry) if entry else None,
    }
