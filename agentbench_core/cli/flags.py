"""Flags that become a layer of settings. Only what the user typed enters it, never a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import App
from agentbench_core.inputs.config import Layer, Resolved, RunSettings, assignment, layer, resolve
from agentbench_core.inputs.documents import read_toml
from agentbench_core.inputs.presets import read_presets, with_preset
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


sandbox_flag = click.option("--sandbox", metavar="NAME", help="Sandbox. [default: local]")
set_flag = click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Any setting, such as agent.x=1."
)
_workers_flag = click.option("--workers", type=int, help="Attempts at once. [default: 2]")
_out_flag = click.option("--out", metavar="DIR", help="Where run directories go. [default: artifacts/runs]")


def replay_flags(command: F) -> F:
    """Add the flags of a run whose variant is given."""
    tasks = click.option("--tasks", metavar="DIR", help="Where the tasks are now. [default: where they were]")
    for flag in (set_flag, _out_flag, _workers_flag, sandbox_flag, tasks):
        command = flag(command)
    return command


def settings_flags(command: F) -> F:
    """Add the flags that choose settings."""
    return suite_flags(variant_flags(command))


def suite_flags(command: F) -> F:
    """Add the flags that choose tasks."""
    flags = [
        click.option("--suite", metavar="NAME", help="Suite to run. [default: custom-dev]"),
        click.option("--tasks", metavar="DIR", help="Directory of suites. [default: tasks]"),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def variant_flags(command: F) -> F:
    """Add the flags that choose variants, and how they are run."""
    flags = [
        click.option("--variant", metavar="NAME|FILE", multiple=True, help="Variant to run; several are compared."),
        click.option("--agent", metavar="NAME", help="Agent; see `agentbench plugins list`."),
        sandbox_flag,
        click.option("--llm", metavar="NAME", help="Provider of the model."),
        click.option("--model", metavar="NAME", help="Model, as its provider calls it."),
        click.option("--temperature", type=float, help="Sampling temperature; not sent when not given."),
        click.option("--max-steps", type=int, help="Tool calls per attempt, instead of the task's limit."),
        click.option("--max-cost-usd", type=float, help="What each run may cost; never more, also when resumed."),
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
    return seen


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
