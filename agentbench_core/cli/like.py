"""``run --like``: repeat the plan of runs, from their run.json, in new run directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core.cli.app import App, say, shortened
from agentbench_core.cli.flags import flag_layers, installed_layer, project_layers
from agentbench_core.cli.groups import (
    check_redacted,
    check_same_plan,
    make_group,
    make_variants,
    runs_of_one_plan,
    tasks_of,
)
from agentbench_core.converter import dump
from agentbench_core.errors import InputError
from agentbench_core.evidence.layout import MANIFEST
from agentbench_core.evidence.reader import RunDirectory
from agentbench_core.inputs.config import Layer, RunSettings, recorded, resolve
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Registry
from agentbench_core.run.group.group import RunPlan
from agentbench_core.run.variant import Variant, named_components
from agentbench_core.schema import defaults
from agentbench_core.values.record import RunManifest
from agentbench_core.values.text import quantity

_LAYERED = frozenset({"tasks", "out", "workers", "max_cost_usd", "assignments"})
"""Flags allowed with --like: paths, parallelism, cost limit, and deliberate differences."""

_OURS = ("run.out", "run.tasks")
"""Settings never taken from a run.json, which may come from an untrusted source."""


def like_group(app: App, directories: Sequence[Path], typed: Mapping[str, Any], *, allow_unisolated: bool) -> RunPlan:
    """The plan of earlier runs: suite, tasks, settings with seeds, repeats. Several runs become one group.

    Raises:
        InputError: the plan cannot be repeated here (a missing task, an unknown name, a redacted secret).
        UnavailableError: an agent that uses a model would run in a sandbox that is not isolated.
    """
    for flag, value in typed.items():
        if value not in (None, ()) and flag not in _LAYERED:
            raise click.UsageError(
                f"--like repeats the plan of an earlier run; remove --{flag.replace('_', '-')}. "
                "To change a setting on purpose: --set KEY=VALUE"
            )
    by_variant = runs_of_one_plan(directories, "--like")
    first = next(iter(by_variant.values()))
    tasks = tasks_of(first, typed.get("tasks"))
    check_same_plan(first, tasks)
    for task in tasks:
        if task.directory.resolve().is_relative_to(first.directory.resolve()):
            raise InputError(
                f"{task.directory} is inside the run directory, whose copies of tasks cannot be run",
                remedy="Pass the directory of the tasks: --tasks DIR",
            )
        if task.spec.suite != first.manifest.suite:
            raise InputError(
                f"{task.directory} belongs to suite {task.spec.suite!r}, which is not the suite of that run"
            )
    resolved = {
        name: resolve([*_output_directory(), _plan(run), *flag_layers(typed)], app.registry.name_of)
        for name, run in by_variant.items()
    }
    for each in resolved.values():
        check_redacted(each)
    try:
        variants = make_variants(app, resolved, tasks, allow_unisolated=allow_unisolated)
    except InputError as error:
        remedy = "\n".join([error.remedy, *_missing_plugins(app, first.manifest)]).strip()
        raise type(error)(error.message, remedy=remedy) from error
    settings = resolved[first.manifest.variant].settings.run
    for variant in variants:
        _print_plan(by_variant[variant.name].manifest, settings, tasks, variant, app.registry)
    group = make_group(app, settings, first.manifest.suite, tasks, variants, first.manifest.presets)
    return attrs.evolve(group, like=by_variant, shard=first.manifest.shard)


def _plan(run: RunDirectory) -> Layer:
    leaves = {key: leaf for key, leaf in run.manifest.config.items() if key not in _OURS}
    return recorded(str(run.directory / MANIFEST), leaves)


def _output_directory() -> Sequence[Layer]:
    """The output directory set in the project file, if any."""
    directories = [(source, source.values.get("run", {}).get("out")) for source in project_layers()]
    return [Layer(origin=source.origin, values={"run": {"out": out}}) for source, out in directories if out is not None]


def _missing_plugins(app: App, manifest: RunManifest) -> Sequence[str]:
    """The run's plugins that are missing here or have another version, as a hint for unknown names."""
    installed = {(p.source.plugin, p.source.distribution, p.source.version): p.status for p in app.plugins.plugins}
    return [
        f"That run used plugin {entry.name!r} of {entry.distribution} {entry.version}, which is not enabled here."
        for entry in manifest.plugins
        if installed.get((entry.name, entry.distribution, entry.version)) != "ok"
    ]


def _print_plan(
    manifest: RunManifest, settings: RunSettings, tasks: Sequence[Task], variant: Variant, registry: Registry
) -> None:
    """Print the plan before it runs, since its settings decide which programs and models are used."""
    base = _defaults(variant, registry)
    changed = [
        f"{key}={leaf.value}" for key, leaf in variant.settings_with_origins.items() if base.get(key, "") != leaf.value
    ]
    directories = sorted({str(task.directory.parent) for task in tasks})
    count = quantity(len(tasks), "task")
    say(
        f"like run {manifest.run_id}: variant {variant.name}, {count} from "
        f"{shortened(', '.join(directories))}, repeats {settings.repeats}, sandbox {variant.sandbox.name}",
        err=True,
    )
    say(f"settings that differ from the defaults: {shortened(', '.join(changed), 2000) or 'none'}", err=True)


def _defaults(variant: Variant, registry: Registry) -> Mapping[str, Any]:
    """The default of every setting of a variant's components."""
    result = {key: leaf.value for key, leaf in resolve([installed_layer(registry)]).leaves.items()}
    for kind, section, name in named_components(variant.settings):
        options = registry.find(kind, name).options if registry.has(kind, name) else None
        result |= {f"{section}.{key}": dump(value) for key, value in (defaults(options) if options else {}).items()}
    return result
