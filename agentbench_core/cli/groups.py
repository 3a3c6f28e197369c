"""Turn flags into the plan of a new run, a resumed run, or a replay."""

from __future__ import annotations

import datetime
import fnmatch
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core.builtin.options import RepairOptions
from agentbench_core.cli.app import App, say
from agentbench_core.cli.flags import base_layers, flag_layers
from agentbench_core.cli.progress.choice import warn_unisolated
from agentbench_core.errors import InputError, Obstacles
from agentbench_core.evidence.layout import MANIFEST
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.inputs.config import Layer, Resolved, RunSettings, layer, recorded, resolve
from agentbench_core.inputs.quarantine import quarantine
from agentbench_core.inputs.suite import TASK_FILE, Task, read_task, select
from agentbench_core.plugin.contracts import RunView
from agentbench_core.plugin.registry import Registry
from agentbench_core.run.group.group import RunPlan
from agentbench_core.run.readiness import run_checks
from agentbench_core.run.variant import (
    ConfiguredComponent,
    Variant,
    agent_names,
    configured,
    make_variant,
    variant_without_agents,
)
from agentbench_core.values.record import RunManifest

_PLANNED = ("suite", "variant", "out")
"""Flags that cannot be combined with --resume, because they would change the plan of the run."""


def make_variants(
    app: App, resolved: Mapping[str, Resolved], tasks: Sequence[Task], *, allow_unisolated: bool
) -> Sequence[Variant]:
    """The variants with these settings. Raises an error that lists everything that prevents their run."""
    obstacles = Obstacles()
    variants = gathered_variants(app, resolved, tasks, obstacles, allow_unisolated=allow_unisolated)
    if obstacles:
        for each in resolved.values():
            add_checks(each, tasks, app.registry, obstacles)
    obstacles.refuse()
    return variants


def gathered_variants(
    app: App, resolved: Mapping[str, Resolved], tasks: Sequence[Task], obstacles: Obstacles, *, allow_unisolated: bool
) -> Sequence[Variant]:
    """The variants that can be made; the problems of the others are added to ``obstacles``."""
    variants = []
    for name, each in resolved.items():
        with obstacles.gathered():
            variants.append(
                make_variant(
                    name, each, agent_names(each.settings, tasks), app.registry, allow_unisolated=allow_unisolated
                )
            )
    return variants


def add_checks(
    resolved: Resolved, tasks: Sequence[Task], registry: Registry, obstacles: Obstacles, *, complete: bool = True
) -> None:
    """Add everything else that a refused run needs, so that users can fix it all at once. See :func:`run_checks`."""
    for check in run_checks(resolved, tasks, registry, complete=complete):
        if check.error is not None:
            obstacles.add(check.error)


def make_group(
    app: App, settings: RunSettings, suite: str, tasks: Sequence[Task], variants: Sequence[Variant], presets: str
) -> RunPlan:
    """The plan of ``run``. ``presets`` is the version of the presets file used by the settings.

    Warns if ``flakes.yaml`` is out of date. Raises InputError if it is invalid.
    """
    quarantined = quarantine(tasks, variants[0].sandbox.name, datetime.date.today())
    for note in quarantined.notes:
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
        quarantined=quarantined.reasons,
        flaky=quarantined.flaky,
        argv=sys.argv,
        plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
    )


def variant_for_tasks(app: App, typed: Mapping[str, Any], name: str) -> Variant:
    """The variant for commands that check tasks without an agent. Raises InputError if its settings are invalid."""
    resolved = resolve([*base_layers(app), *flag_layers(typed)], app.registry.name_of)
    variant = variant_without_agents(name, resolved, app.registry)
    if not variant.sandbox.can("isolated"):
        warn_unisolated()
    return variant


def resumed_group(
    app: App, directories: Sequence[Path], typed: Mapping[str, Any], *, allow_changes: bool, allow_unisolated: bool
) -> RunPlan:
    """The plan to resume runs, with their settings and tasks, and flags on top.

    Raises InputError if they cannot be resumed, or are not runs of one plan, since one command runs their attempts.
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
    for variant in resolved.values():
        check_redacted(variant)
    variants = make_variants(app, resolved, tasks, allow_unisolated=allow_unisolated)
    settings = resolved[first.variant].settings.run
    group = make_group(app, settings, first.suite, tasks, variants, first.presets)
    # The quarantine is fixed when the run is planned: it cannot be changed after seeing results.
    planned = {entry.id: entry for entry in first.tasks}
    quarantined = {
        task.spec.id: entry.quarantined if entry.digest == task.digest else group.quarantined.get(task.spec.id, "")
        for task in tasks
        if (entry := planned.get(task.spec.id)) is not None
    }
    return attrs.evolve(
        group, resumed=by_variant, allow_changes=allow_changes, quarantined=quarantined, shard=first.shard
    )


def replayed_group(
    app: App, directory: Path, typed: Mapping[str, Any], globs: Sequence[str], *, allow_unisolated: bool
) -> RunPlan:
    """The plan to repeat a run with its recorded model responses, with flags on top of its settings.

    Limited to tasks whose id matches one of ``globs``, if any. Raises InputError if one of these tasks is missing.
    """
    run = open_run(directory)
    if run.manifest.model is None:
        raise InputError(
            f"{directory} has no model calls, so there is nothing to replay",
            remedy="Start a new run instead: agentbench run",
        )
    answers = layer(f"replay of {directory}", {"llm": {"name": "replay", "from": str(run.directory.resolve())}})
    then = [recorded(str(run.directory / MANIFEST), run.manifest.config), *_older_prompts(app, run)]
    resolved = resolve([*then, answers, *flag_layers(typed)], app.registry.name_of)
    check_redacted(resolved)
    tasks = select(tasks_of(run, typed.get("tasks")), globs)
    check_same_plan(run, tasks, globs, ", or select the tasks to replay: --task GLOB")
    variants = make_variants(app, {run.manifest.variant: resolved}, tasks, allow_unisolated=allow_unisolated)
    group = make_group(app, resolved.settings.run, run.manifest.suite, tasks, variants, run.manifest.presets)
    return attrs.evolve(group, shard=run.manifest.shard)


def reporters_of(app: App, run: RunView) -> Sequence[ConfiguredComponent]:
    """The reporters in the settings of a run. Raises InputError if one is not installed or its options are invalid."""
    resolved = resolve([recorded(str(run.directory / MANIFEST), run.manifest.config)], app.registry.name_of)
    return [configured(app.registry, resolved, "reporter", name) for name in resolved.settings.reporters]


def _older_prompts(app: App, run: RunDirectory) -> Sequence[Layer]:
    """Prompt version v1 for a run that was recorded before ``agent.prompt_version`` existed."""
    config = run.manifest.config
    name = config["agent.name"].value if "agent.name" in config else ""
    if "agent.prompt_version" in config or not name or not app.registry.has("agent", name):
        return ()
    if not issubclass(app.registry.find("agent", name).options or object, RepairOptions):
        return ()
    return [layer(str(run.directory / MANIFEST), {"agent": {"prompt_version": "v1"}})]


def runs_of_one_plan(directories: Sequence[Path], flag: str) -> Mapping[str, RunDirectory]:
    """Runs of one plan, by variant name. Raises InputError if the plans differ, UsageError if a run is passed twice."""
    runs = [open_run(directory) for directory in directories]
    first = runs[0].manifest
    plan = ("group_id", "tasks", "repeats", "shard")
    for run in runs[1:]:
        if any(getattr(run.manifest, name) != getattr(first, name) for name in plan):
            raise InputError(
                f"{run.directory} and {runs[0].directory} do not have the same plan",
                remedy="Pass them one at a time.",
            )
    by_variant = {run.manifest.variant: run for run in runs}
    if len(by_variant) < len(runs):
        raise click.UsageError(f"{flag} contains the same run twice")
    return by_variant


def check_same_plan(run: RunDirectory, tasks: Sequence[Task], globs: Sequence[str] = (), otherwise: str = "") -> None:
    """Raise InputError if tasks are missing, unless a subset was requested explicitly.

    ``otherwise`` is an alternative, appended to the remedy.
    """
    planned = {t.id for t in run.manifest.tasks if not globs or any(fnmatch.fnmatch(t.id, glob) for glob in globs)}
    results = {task.spec.id for task in tasks}
    if missing := sorted(planned - results):
        instead = f"; found instead: {', '.join(sorted(results - planned))}" if results - planned else ""
        raise InputError(
            f"tasks of {run.directory} no longer exist: {', '.join(missing)}{instead}",
            remedy=f"Restore them, or pass their directory: --tasks DIR{otherwise}",
        )


def check_redacted(resolved: Resolved) -> None:
    """Raise InputError if a setting contains the placeholder of a redacted secret."""
    for key, leaf in resolved.leaves.items():
        if "[redacted " in repr(leaf.value):
            raise InputError(
                f"setting {key} contained a secret, which run.json does not store: {leaf.value!r}",
                remedy=f"Pass it again: --set {key}=VALUE",
            )


def tasks_of(run: RunDirectory, root: str | None) -> Sequence[Task]:
    """The tasks of a run that still exist, at their recorded paths or under another ``root``."""
    results = []
    for entry in run.manifest.tasks:
        path = Path(entry.path) if root is None else Path(root) / run.manifest.suite / Path(entry.path).name
        if (path / TASK_FILE).exists():
            results.append(read_task(path))
    if not results:
        raise InputError(
            f"cannot find the tasks of {run.directory} (first path: {_first(run.manifest)})",
            remedy="Pass their directory: --tasks DIR",
        )
    ids = [task.spec.id for task in results]
    if len(set(ids)) < len(ids):
        raise InputError(f"{run.directory / MANIFEST} lists a task twice", remedy="Restore it from a copy.")
    return results


def _first(manifest: RunManifest) -> str:
    return manifest.tasks[0].path if manifest.tasks else "none"
