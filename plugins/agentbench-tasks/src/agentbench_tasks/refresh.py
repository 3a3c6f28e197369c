"""``agentbench tasks refresh``: validate a suite again, and retire tasks that no longer work."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from agentbench_core import InputError, quantity
from agentbench_core.harness import (
    App,
    DateRange,
    date_flags,
    json_flag,
    print_json,
    print_table,
    sandbox_flag,
    say,
    selected_tasks,
    set_flag,
    shortened,
    suite_flags,
    task_flag,
    variant_for_tasks,
)
from agentbench_tasks.progress import Progress
from agentbench_tasks.retirement import Decision, decide, retire
from agentbench_tasks.validation import validate

_TIMES = 3  # a task must fail every check before it is retired
_UNKNOWN = 3  # exit code


@click.command("refresh")
@suite_flags
@task_flag
@date_flags
@click.option(
    "--times", type=click.IntRange(min=1), default=_TIMES, show_default=True, help="Number of checks per task."
)
@click.option("--workers", type=int, help="Number of tasks to check in parallel. [default: 2]")
@sandbox_flag
@set_flag
@click.option("--dry-run", is_flag=True, help="Only show which tasks would be retired.")
@json_flag
@click.pass_obj
def refresh(
    app: App,
    /,
    task_globs: tuple[str, ...],
    dates: DateRange,
    times: int,
    dry_run: bool,
    as_json: bool,
    **typed: Any,
) -> int:
    """Validate a suite again and retire tasks that no longer work.

    \b
    agentbench tasks refresh --suite my-suite --sandbox docker

    A task that breaks a rule in every check is moved to .retired in its suite, with the reasons in retired.json. To
    restore it, move it back. Tasks that may fail because of this machine (sandbox, network, time limits, or no valid
    task in the suite) are reported as unknown and never retired. Flaky tasks are kept; see `validate-tasks --flakes`.

    Exit codes: 0 all remaining tasks are valid; 1 some are flaky, or would be retired; 3 some are unknown.
    """
    variant = variant_for_tasks(app, typed, "refresh")
    settings = variant.settings.run
    tasks = selected_tasks(settings, task_globs, dates)
    progress = Progress(len(tasks) * times)
    try:
        validate(tasks, variant, progress, times=times, workers=settings.workers, per_test=False)
    except KeyboardInterrupt:
        every = quantity(len(tasks), "task")
        say(f"interrupted after checking {len(progress.findings)} of {every}; no task was retired", err=True)
        return 130
    decisions = decide([progress.findings[task.spec.id] for task in tasks])
    moved = {} if dry_run else _retire(decisions, variant.sandbox.name)
    if as_json:
        print_json([_plain(decision, moved) for decision in decisions])
    else:
        _print(decisions, moved, dry_run=dry_run)
    return _exit_code(decisions, moved)


def _retire(decisions: Sequence[Decision], sandbox: str) -> dict[str, Path]:
    """Retire tasks, and return their new directories by id. A task that cannot be moved does not stop the others."""
    moved = {}
    for decision in decisions:
        if decision.action == "retired":
            try:
                now = datetime.datetime.now(datetime.UTC)
                moved[decision.report.task.spec.id] = retire(decision, sandbox=sandbox, now=now)
            except InputError as error:
                say(f"not retired: {error}", err=True)
    return moved


def _print(decisions: Sequence[Decision], moved: dict[str, Path], *, dry_run: bool) -> None:
    rows = []
    for decision in decisions:
        task = decision.report.task.spec.id
        action = "would retire" if dry_run and decision.action == "retired" else _action(decision, moved)
        rows.append((task, decision.report.verdict, action, shortened(decision.reason, 100)))
    print_table(("TASK", "VERDICT", "ACTION", "REASON"), rows)
    counts = {name: sum(row[2] == name for row in rows) for name in dict.fromkeys(row[2] for row in rows)}
    tasks = quantity(len(rows), "task")
    say(f"\n{tasks}: {', '.join(f'{number} {name}' for name, number in counts.items())}")
    for directory in moved.values():
        say(f"moved to {directory}")


def _action(decision: Decision, moved: dict[str, Path]) -> str:
    if decision.action == "retired" and decision.report.task.spec.id not in moved:
        return "not retired"
    return decision.action


def _plain(decision: Decision, moved: dict[str, Path]) -> dict[str, Any]:
    task = decision.report.task
    return {
        "task": task.spec.id,
        "verdict": decision.report.verdict,
        "action": decision.action,
        "reason": decision.reason,
        "directory": str(moved.get(task.spec.id, task.directory)),
        "retired": task.spec.id in moved,
    }


def _exit_code(decisions: Sequence[Decision], moved: dict[str, Path]) -> int:
    if any(decision.action == "unknown" for decision in decisions):
        return _UNKNOWN
    remaining = [decision for decision in decisions if decision.report.task.spec.id not in moved]
    return int(any(decision.report.verdict != "valid" for decision in remaining))
