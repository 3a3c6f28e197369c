"""From what was typed to what is run: the group of a new run, and of one that is resumed."""

from __future__ import annotations

import datetime
import fnmatch
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.flags import base_layers, flag_layers, open_typed
from agentbench_core.cli.progress import warn_unisolated
from agentbench_core.errors import InputError
from agentbench_core.evidence.layout import MANIFEST
from agentbench_core.evidence.reader import RunDirectory
from agentbench_core.inputs.config import Resolved, RunSettings, layer, recorded, resolve
from agentbench_core.inputs.quarantine import quarantine
from agentbench_core.inputs.suite import TASK_FILE, Task, read_task, select
from agentbench_core.run.group.group import RunPlan
from agentbench_core.run.variant import Variant, make_variant, variant_without_agents
from agentbench_core.values.record import RunManifest

_PLANNED = ("suite", "variant", "out")
"""Flags that would make another run of a resumed one."""


def make_group(
    app: App, settings: RunSettings, suite: str, tasks: Sequence[Task], variants: Sequence[Variant], presets: str
) -> RunPlan:
    """What ``run`` runs, with settings that were made with that version of the presets.

    Says it when ``flakes.yaml`` is out of date; raises InputError when it is wrong.
    """
    aside = quarantine(tasks, variants[0].sandbox.name, datetime.date.today())
    for note in aside.notes:
        say(f"note: {note}", err=True)
    return RunPlan(
        suite=suite,
        tasks=tasks,
        variants=variants,
        repeats=settings.repeats,
        workers=settings.workers,
        out=Path(settings.out),
        min_free_mb=settings.min_free_mb,
        max_cost_usd=settings.max_cost_usd,
        presets=presets,
        quarantined=aside.reasons,
        flaky=aside.flaky,
        argv=sys.argv,
        plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
    )


def variant_for_tasks(app: App, typed: Mapping[str, Any], name: str) -> Variant:
    """What looks at tasks without an agent of its own, from the flags of a command. Raises InputError."""
    resolved = resolve([*base_layers(app), *flag_layers(typed)], app.registry.name_of)
    variant = variant_without_agents(name, resolved, app.registry)
    if not variant.sandbox.can("isolated"):
        warn_unisolated()
    return variant


def resumed_group(
    app: App, directories: Sequence[str], typed: Mapping[str, Any], *, changed_ok: bool, allow_unisolated: bool
) -> RunPlan:
    """What is left of runs: their own settings and tasks, and flags over them. Raises InputError.

    Several directories must be of one group, since one command makes their attempts.
    """
    for flag in _PLANNED:
        if typed.get(flag):
            raise click.UsageError(f"--resume continues a run as planned; remove --{flag}")
    by_variant = runs_of_one_plan(directories, "--resume")
    run = next(iter(by_variant.values()))
    first = run.manifest
    tasks = tasks_of(run, typed.get("tasks"))
    flags = flag_layers(typed)
    resolved = {
        name: resolve([recorded(str(run.directory / MANIFEST), run.manifest.config), *flags], app.registry.name_of)
        for name, run in by_variant.items()
    }
    for each in resolved.values():
        check_redacted(each)
    variants = [
        make_variant(name, each, tasks, app.registry, allow_unisolated=allow_unisolated)
        for name, each in resolved.items()
    ]
    settings = resolved[first.variant].settings.run
    group = make_group(app, settings, first.suite, tasks, variants, first.presets)
    # Planned is planned: nobody sets a task aside, or takes one back, after having seen results.
    planned = {entry.id: entry for entry in first.tasks}
    aside = {
        task.spec.id: entry.quarantined if entry.digest == task.digest else group.quarantined.get(task.spec.id, "")
        for task in tasks
        if (entry := planned.get(task.spec.id)) is not None
    }
    return attrs.evolve(group, resumed=by_variant, changed_ok=changed_ok, quarantined=aside)


def replayed_group(
    app: App, directory: str, typed: Mapping[str, Any], globs: Sequence[str], *, allow_unisolated: bool
) -> RunPlan:
    """A run once more, with the model's answers as they were recorded, and flags over its settings.

    Only tasks whose id matches one of ``globs``, if there are any. Raises InputError, also when one of them is gone.
    """
    run = open_typed(directory)
    if run.manifest.model is None:
        raise InputError(
            f"{directory} has no model calls, so there is nothing to replay", remedy="Run it: agentbench run"
        )
    answers = layer(f"replay of {directory}", {"llm": {"name": "replay", "from": str(run.directory.resolve())}})
    settings = [recorded(str(run.directory / MANIFEST), run.manifest.config), answers, *flag_layers(typed)]
    resolved = resolve(settings, app.registry.name_of)
    check_redacted(resolved)
    tasks = select(tasks_of(run, typed.get("tasks")), globs)
    check_same_plan(run, tasks, globs, ", or select the tasks to replay: --task GLOB")
    variant = make_variant(run.manifest.variant, resolved, tasks, app.registry, allow_unisolated=allow_unisolated)
    return make_group(app, resolved.settings.run, run.manifest.suite, tasks, [variant], run.manifest.presets)


def runs_of_one_plan(directories: Sequence[str], flag: str) -> Mapping[str, RunDirectory]:
    """Runs of one group by the names of their variants, the first that was named first. Raises InputError."""
    runs = [open_typed(directory) for directory in directories]
    first = runs[0].manifest
    for run in runs[1:]:
        if any(getattr(run.manifest, name) != getattr(first, name) for name in ("group_id", "tasks", "repeats")):
            raise InputError(
                f"{run.directory} and {runs[0].directory} do not have the same plan",
                remedy="Pass one of them at a time.",
            )
    by_variant = {run.manifest.variant: run for run in runs}
    if len(by_variant) < len(runs):
        raise click.UsageError(f"{flag} contains the same run twice")
    return by_variant


def check_same_plan(run: RunDirectory, tasks: Sequence[Task], globs: Sequence[str] = (), otherwise: str = "") -> None:
    """A part must not look like the whole, unless somebody asked for the part. Raises InputError.

    ``otherwise`` is what else can be done when tasks are gone.
    """
    wanted = {t.id for t in run.manifest.tasks if not globs or any(fnmatch.fnmatch(t.id, glob) for glob in globs)}
    found = {task.spec.id for task in tasks}
    if gone := sorted(wanted - found):
        instead = f"; in their place: {', '.join(sorted(found - wanted))}" if found - wanted else ""
        raise InputError(
            f"tasks of {run.directory} no longer exist: {', '.join(gone)}{instead}",
            remedy=f"Restore them, or pass their directory: --tasks DIR{otherwise}",
        )


def check_redacted(resolved: Resolved) -> None:
    """Nothing runs with the words that stand in run.json instead of a secret. Raises InputError."""
    for key, leaf in resolved.leaves.items():
        if "[redacted " in repr(leaf.value):
            raise InputError(
                f"setting {key} contained a secret, which run.json does not store: {leaf.value!r}",
                remedy=f"Pass it again: --set {key}=VALUE",
            )


def tasks_of(run: RunDirectory, root: str | None) -> Sequence[Task]:
    """The tasks of a run that are still there, at their old place or below another ``root``."""
    found = []
    for entry in run.manifest.tasks:
        path = Path(entry.path) if root is None else Path(root) / run.manifest.suite / Path(entry.path).name
        if (path / TASK_FILE).exists():
            found.append(read_task(path))
    if not found:
        raise InputError(
            f"none of the tasks of {run.directory} exists any more, for example {_example(run.manifest)}",
            remedy="Pass their directory: --tasks DIR",
        )
    ids = [task.spec.id for task in found]
    if len(set(ids)) < len(ids):
        raise InputError(f"{run.directory / MANIFEST} lists a task twice", remedy="Restore it from a copy.")
    return found


def _example(manifest: RunManifest) -> str:
    return manifest.tasks[0].path if manifest.tasks else "none"
