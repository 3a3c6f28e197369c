"""``agentbench run`` and ``run-task``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from agentbench_core.cli.app import App
from agentbench_core.cli.flags import resolved_variants, settings_flags, variant_flags
from agentbench_core.cli.progress import progress
from agentbench_core.evidence.layout import SUMMARY
from agentbench_core.inputs.config import RunSettings
from agentbench_core.inputs.suite import Task, read_suite, read_task, select
from agentbench_core.run.runner import FinishedRun, Group, run_group
from agentbench_core.run.variant import make_ready

_UNISOLATED = click.option(
    "--allow-unisolated", is_flag=True, help="Let a model steer an agent on a sandbox that does not isolate."
)


@click.command()
@settings_flags
@click.option("--task", "task_globs", metavar="GLOB", multiple=True, help="Only tasks whose id matches.")
@_UNISOLATED
@click.pass_obj
def run(app: App, /, task_globs: tuple[str, ...], allow_unisolated: bool, **typed: Any) -> int:
    """Run variants on the tasks of a suite, and print a summary.

    Each variant gets a run directory of its own with one record per attempt, every event, and the evidence.
    """

    def find(settings: RunSettings) -> Sequence[Task]:
        return select(read_suite(Path(settings.tasks), settings.suite), task_globs)

    return _run(app, typed, find, allow_unisolated)


@click.command()
@click.option("--task", "task_file", metavar="FILE", required=True, help="A task.yaml, or the directory with it.")
@variant_flags
@_UNISOLATED
@click.pass_obj
def run_task(app: App, /, task_file: str, allow_unisolated: bool, **typed: Any) -> int:
    """Run variants on one task, by its task.yaml."""
    task = read_task(Path(task_file))
    return _run(app, typed, lambda _: [task], allow_unisolated)


def _run(app: App, typed: Mapping[str, Any], find: Any, allow_unisolated: bool) -> int:
    resolved = resolved_variants(app, typed)
    settings = next(iter(resolved.values())).settings  # variants differ in what is compared, not in how they run
    tasks: Sequence[Task] = find(settings.run)
    variants = [
        make_ready(name, r, tasks, app.registry, allow_unisolated=allow_unisolated) for name, r in resolved.items()
    ]
    group = Group(
        suite=tasks[0].spec.suite,
        tasks=tasks,
        variants=variants,
        repeats=settings.run.repeats,
        workers=settings.run.workers,
        out=Path(settings.run.out),
        argv=sys.argv,
        plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
    )
    _say_what_is_not_in_use(app)
    with progress(len(tasks) * len(variants) * group.repeats, isolated=variants[0].sandbox.can("isolated")) as listener:
        finished = run_group(group, listener)
    for run_ in finished:
        _print_summary(run_)
    return 130 if any(run_.status == "interrupted" for run_ in finished) else 0


def _say_what_is_not_in_use(app: App) -> None:
    for plugin in app.plugins.plugins:
        if plugin.status == "broken":
            click.echo(f"plugin {plugin.source.plugin!r} is broken and not in use: {plugin.problem}", err=True)


def _print_summary(finished: FinishedRun) -> None:
    click.echo()
    path = finished.directory / SUMMARY
    if path.exists():
        click.echo(path.read_text(encoding="utf-8"), nl=False)
    click.echo(f"evidence: {finished.directory}")
