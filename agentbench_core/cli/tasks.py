"""``agentbench tasks list``, ``show`` and ``schema``: the tasks of suites."""

from __future__ import annotations

import datetime
from pathlib import Path

import click
import yaml

from agentbench_core.cli.app import print_json, print_table, say
from agentbench_core.cli.completion import task_ids
from agentbench_core.cli.flags import json_flag, run_settings, tasks_flag
from agentbench_core.cli.selection import date_flags, dated
from agentbench_core.converter import dump
from agentbench_core.errors import InputError
from agentbench_core.inputs.quarantine import Quarantine, quarantine
from agentbench_core.inputs.suite import Task, read_suite, read_task, select, suites
from agentbench_core.schema import json_schema
from agentbench_core.values.dates import DateRange, utc_day
from agentbench_core.values.task import Provenance, TaskSpec


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


@click.command("list")
@click.option("--suite", metavar="NAME", help="Show only this suite.")
@tasks_flag
@date_flags
@json_flag
def list_tasks(suite: str | None, root: str, as_json: bool, dates: DateRange) -> None:
    """List tasks by suite. Dates, fixes and labels are shown if some tasks have them."""
    results: list[Task] = []
    quarantines: dict[str, Quarantine] = {}
    for name in [suite] if suite else suites(Path(root)):
        try:
            tasks_of = read_suite(Path(root), name)
            quarantines[name] = quarantine(tasks_of, None, datetime.date.today())
            results += tasks_of
        except InputError as error:
            if suite:
                raise
            say(f"skipped: suite {name}: {error.message}", err=True)
    results = list(dated(results, dates))
    for note in (note for entry in quarantines.values() for note in entry.notes):
        say(f"note: {note}", err=True)
    why = [quarantines[task.spec.suite].reasons.get(task.spec.id, "") for task in results]
    if as_json:
        print_json(
            [
                {"digest": task.digest, "directory": str(task.directory), "quarantined": reason, **dump(task.spec)}
                for task, reason in zip(results, why, strict=True)
            ]
        )
        return
    if not results:
        raise InputError(f"no tasks in {root!r}", remedy="Pass the directory: --tasks DIR")
    header: tuple[str, ...] = ("SUITE", "TASK", "HIDDEN TESTS", "ORACLE", "QUARANTINED", "TAGS")
    rows: list[tuple[str, ...]] = [
        (
            task.spec.suite,
            task.spec.id,
            "yes" if task.hidden else "no",
            "yes" if task.script else "no",
            "yes" if reason else "no",
            ", ".join(task.spec.tags),
        )
        for task, reason in zip(results, why, strict=True)
    ]
    sources = [_provenance(task.spec.provenance) for task in results]
    if any(any(source) for source in sources):
        header = (*header, "DATE", "FIX", "LABELS")
        rows = [(*row, *source) for row, source in zip(rows, sources, strict=True)]
    print_table(header, rows)
    for task, reason in zip(results, why, strict=True):
        if reason:
            say(f"{task.spec.suite}/{task.spec.id}: quarantined and excluded from headline figures: {reason}")


def _provenance(source: Provenance) -> tuple[str, str, str]:
    """The day of the fix in UTC, the beginning of its commit, and labels; empty if unknown."""
    return str(utc_day(source.date)) if source.date else "", source.commit[:12], ", ".join(source.labels)


@click.command("show")
@click.argument("task", shell_complete=task_ids)
@click.option(
    "--suite",
    metavar="NAME",
    default=lambda: run_settings().suite,
    show_default=False,
    help="Suite of the task. [default: custom-dev]",
)
@tasks_flag
@json_flag
def show_task(task: str, suite: str, root: str, as_json: bool) -> None:
    """Show every setting of a task, including defaults. TASK is its id or the path to its task.yaml."""
    result = read_task(Path(task)) if Path(task).exists() else select(read_suite(Path(root), suite), [task])[0]
    if as_json:
        print_json({"digest": result.digest, "directory": str(result.directory), **dump(result.spec)})
        return
    say(f"# {result.directory}")
    say(f"# {result.digest}")
    say(yaml.dump(dump(result.spec), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110), nl=False)


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of task.yaml, for editors."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AgentBench task.yaml"}
    print_json(title | json_schema(TaskSpec))
