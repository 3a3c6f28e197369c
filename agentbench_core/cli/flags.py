"""Flags that become a layer of settings. Only what the user typed enters it, never a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.completion import names_of, suite_names, task_ids, variants
from agentbench_core.errors import did_you_mean
from agentbench_core.inputs.config import Layer, Resolved, RunSettings, assignment, layer, resolve
from agentbench_core.inputs.documents import read_toml
from agentbench_core.inputs.presets import Presets, read_presets, with_preset
from agentbench_core.inputs.variants import find_variant

F = TypeVar("F", bound=Callable[..., Any])

PROJECT_FILE = Path("agentbench.toml")
"""Settings of a project, in the directory where commands are typed."""

_SETTINGS = {
    "suite": "run.suite",
    "tasks": "run.tasks",
    "out": "run.out",
    "workers": "run.workers",
    "repeats": "run.repeats",
    "agent": "agent.name",
    "llm": "llm.name",
    "sandbox": "sandbox.name",
    "model": "model.name",
    "temperature": "model.temperature",
    "max_steps": "limits.max_steps",
    "max_cost_usd": "run.max_cost_usd",
}
"""Flag to setting."""


class OneOf(click.Choice[str]):
    """A choice that says which one was meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """All of them, and the nearest."""
        return f"{super().get_invalid_choice_message(value, ctx).rstrip('.')}{did_you_mean(str(value), self.choices)}"


sandbox_flag = click.option(
    "--sandbox",
    metavar="NAME",
    shell_complete=names_of("sandbox"),
    help="Where commands run; `local` does not isolate. [default: local]",
)
set_flag = click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Any setting, such as limits.max_steps=10; `agentbench config show` has them all. May be given several times.",
)
_workers_flag = click.option("--workers", type=int, help="Attempts at once. [default: 2]")
task_flag = click.option(
    "--task",
    "task_globs",
    metavar="GLOB",
    shell_complete=task_ids,
    multiple=True,
    help="Only tasks whose id matches, such as 'fix-*'. May be given several times.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_out_flag = click.option("--out", metavar="DIR", help="Where run directories go. [default: artifacts/runs]")


def replay_flags(command: F) -> F:
    """Add the flags of a run whose variant is given."""
    flags = (
        click.option("--tasks", metavar="DIR", help="Where the tasks are now. [default: where they were]"),
        click.option(
            "--sandbox",
            metavar="NAME",
            shell_complete=names_of("sandbox"),
            help="Another sandbox. [default: that of the run]",
        ),
        click.option("--workers", type=int, help="Attempts at once. [default: as many as then]"),
        click.option("--out", metavar="DIR", help="Where the new run directory goes. [default: where it went then]"),
        set_flag,
    )
    for flag in reversed(flags):
        command = flag(command)
    return command


def settings_flags(command: F) -> F:
    """Add the flags that choose settings."""
    return suite_flags(variant_flags(command))


def suite_flags(command: F) -> F:
    """Add the flags that choose tasks."""
    flags = [
        click.option(
            "--suite",
            metavar="NAME",
            shell_complete=suite_names,
            help="Suite of tasks, a directory in that of --tasks. [default: custom-dev]",
        ),
        click.option("--tasks", metavar="DIR", help="Directory of suites. [default: tasks]"),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def variant_flags(command: F) -> F:
    """Add the flags that choose variants, and how they are run."""
    flags = [
        click.option(
            "--variant",
            metavar="NAME|FILE",
            multiple=True,
            shell_complete=variants,
            help="A named configuration: a file, or one in configs/variants or of a plugin. Several are compared.",
        ),
        click.option(
            "--agent",
            metavar="NAME",
            shell_complete=names_of("agent"),
            help="Agent under test; see `agentbench plugins list`. [default: what the task names]",
        ),
        sandbox_flag,
        click.option(
            "--llm",
            metavar="NAME",
            shell_complete=names_of("llm"),
            help="Who serves the model. [default: the only one that is installed]",
        ),
        click.option(
            "--model", metavar="NAME", help="Model as its provider calls it, or a preset of configs/models.yaml."
        ),
        click.option("--temperature", type=float, help="Sampling temperature. [default: the provider's own]"),
        click.option("--max-steps", type=int, help="Tool calls per attempt. [default: the task's limit]"),
        click.option(
            "--max-cost-usd", type=float, help="US dollars that each run may cost, and never more. [default: no limit]"
        ),
        _workers_flag,
        click.option("--repeats", type=int, help="Attempts per task and variant. [default: 1]"),
        _out_flag,
        set_flag,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def resolved_variants(app: App, typed: Mapping[str, Any]) -> Mapping[str, Resolved]:
    """Settings of each variant: defaults, then the model's preset, the project's file, the variant, and flags."""
    flags = flag_layers(typed)
    before = project_layers()
    presets = read_presets()
    if not typed["variant"]:
        resolved = resolve(with_preset([*before, *flags], presets), app.registry.name_of)
        _note_near_preset(resolved, presets)
        return {resolved.settings.agent.name or "default": resolved}
    if len(typed["variant"]) > 1 and typed.get("agent"):
        raise click.UsageError("--agent would make all variants the same agent; give one --variant, or none")
    shipped = {c.name: c.target for c in app.registry.all("variant")}
    named = [find_variant(name, shipped) for name in typed["variant"]]
    seen: dict[str, Resolved] = {}
    for name, variant in named:
        if name in seen:
            raise click.UsageError(f"variant {name!r} is given twice")
        seen[name] = resolve(with_preset([*before, variant, *flags], presets), app.registry.name_of)
        _note_near_preset(seen[name], presets)
    return seen


def _note_near_preset(resolved: Resolved, presets: Presets) -> None:
    """A short name that is almost that of a preset is asked for as it stands; its provider may well know it."""
    name = resolved.settings.model.name
    if name in presets.models or "/" in name:
        return
    nearest = did_you_mean(name, [preset for preset in presets.models if "/" not in preset])
    if nearest:
        say(f"note: no preset is called {name!r}{nearest}; the provider is asked for a model of that name", err=True)


def project_layers() -> Sequence[Layer]:
    """The settings of ``agentbench.toml`` in the current directory, if there is one."""
    return [layer(str(PROJECT_FILE), read_toml(PROJECT_FILE))] if PROJECT_FILE.exists() else []


def run_settings() -> RunSettings:
    """Settings of the project for commands that run nothing."""
    return resolve(project_layers()).settings.run


def flag_layers(typed: Mapping[str, Any]) -> Sequence[Layer]:
    """One layer per flag that was typed, so that each setting's origin is the flag itself; ``--set`` comes last."""
    layers = []
    for flag, key in _SETTINGS.items():
        if typed.get(flag) is not None:
            section, _, leaf = key.partition(".")
            origin = f"--{flag.replace('_', '-')}"
            layers.append(layer(origin, {section: {leaf: typed[flag]}}))
    return [*layers, *(assignment(text) for text in typed["assignments"])]
