"""Flags that become layers of settings. Only flags that the user passed become layers, never defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import App
from agentbench_core.cli.completion import names_of, suite_names, task_ids, variants
from agentbench_core.errors import Obstacles, did_you_mean
from agentbench_core.inputs.config import Layer, RunSettings, assignment, layer, resolve
from agentbench_core.inputs.documents import read_toml
from agentbench_core.plugin.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

PROJECT_FILE = Path("agentbench.toml")
"""Project settings, in the current directory."""

_SETTINGS = {
    "suite": "run.suite",
    "tasks": "run.tasks",
    "out": "run.out",
    "workers": "run.workers",
    "repeats": "run.repeats",
    "agent": "agent.name",
    "llm": "llm.name",
    "sandbox": "sandbox.name",
    "executor": "executor.name",
    "model": "model.name",
    "temperature": "model.temperature",
    "max_steps": "limits.max_steps",
    "max_cost_usd": "run.max_cost_usd",
}
"""The setting of each flag."""


class OneOf(click.Choice[str]):
    """A choice whose error suggests the nearest name."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """List all choices and suggest the nearest."""
        return f"{super().get_invalid_choice_message(value, ctx).rstrip('.')}{did_you_mean(str(value), self.choices)}"


sandbox_flag = click.option(
    "--sandbox",
    metavar="NAME",
    shell_complete=names_of("sandbox"),
    help="Sandbox that runs commands; `local` is not isolated. "
    "[default: local, or the isolated sandbox for agents that use a model]",
)  #: adds `--sandbox NAME`
set_flag = click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set any setting, for example limits.max_steps=10; `agentbench config show` lists all settings. Repeatable.",
)  #: adds `--set KEY=VALUE` as `assignments`
_workers_flag = click.option("--workers", type=int, help="Number of attempts to run in parallel. [default: 2]")
_executor_flag = click.option(
    "--executor",
    metavar="NAME",
    shell_complete=names_of("executor"),
    help="Where attempts run; see `agentbench plugins list --kind executor`. [default: threads]",
)
task_flag = click.option(
    "--task",
    "task_globs",
    metavar="GLOB",
    shell_complete=task_ids,
    multiple=True,
    help="Use only tasks whose id matches GLOB, for example 'fix-*'. Repeatable.",
)  #: adds `--task GLOB` as `task_globs`
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")  #: adds `--json`
_out_flag = click.option("--out", metavar="DIR", help="Directory for run directories. [default: artifacts/runs]")


def _all_of(*flags: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator that adds flags, which `--help` lists in this order."""

    def add(command: F) -> F:
        return functools.reduce(lambda decorated, flag: flag(decorated), reversed(flags), command)

    return add


replay_flags = _all_of(
    click.option(
        "--tasks", metavar="DIR", help="Directory that contains the suites. [default: same as the original run]"
    ),
    click.option(
        "--sandbox",
        metavar="NAME",
        shell_complete=names_of("sandbox"),
        help="Sandbox to use. [default: same as the original run]",
    ),
    click.option(
        "--workers", type=int, help="Number of attempts to run in parallel. [default: same as the original run]"
    ),
    click.option(
        "--executor",
        metavar="NAME",
        shell_complete=names_of("executor"),
        help="Where attempts run. [default: same as the original run]",
    ),
    click.option(
        "--out", metavar="DIR", help="Directory for the new run directory. [default: same as the original run]"
    ),
    set_flag,
)
"""The flags of a run whose variant is known, such as a replay."""

suite_flags = _all_of(
    click.option(
        "--suite",
        metavar="NAME",
        shell_complete=suite_names,
        help="Suite of tasks: a directory in --tasks. [default: custom-dev]",
    ),
    click.option("--tasks", metavar="DIR", help="Directory that contains the suites. [default: tasks]"),
)
"""The flags that select tasks."""

variant_flags = _all_of(
    click.option(
        "--variant",
        metavar="NAME|FILE",
        multiple=True,
        shell_complete=variants,
        help="A named configuration: a file, or a name in configs/variants or from a plugin. Repeatable.",
    ),
    click.option(
        "--agent",
        metavar="NAME",
        shell_complete=names_of("agent"),
        help="Agent under test; see `agentbench plugins list`. [default: the task's entrypoint]",
    ),
    sandbox_flag,
    click.option(
        "--llm",
        metavar="NAME",
        shell_complete=names_of("llm"),
        help="Model provider. [default: the installed provider, if there is only one]",
    ),
    click.option(
        "--model",
        metavar="NAME",
        help="Model name used by the provider, or a preset from configs/models.yaml. [default: the `default` preset]",
    ),
    click.option("--temperature", type=float, help="Sampling temperature. [default: the provider's default]"),
    click.option("--max-steps", type=int, help="Maximum number of tool calls per attempt. [default: the task's limit]"),
    click.option("--max-cost-usd", type=float, help="Maximum cost of each run in US dollars. [default: no limit]"),
    _workers_flag,
    _executor_flag,
    click.option("--repeats", type=int, help="Number of attempts per task and variant. [default: 1]"),
    _out_flag,
    set_flag,
)
"""The flags that select variants and control the run."""

settings_flags = _all_of(suite_flags, variant_flags)


def project_layers() -> Sequence[Layer]:
    """The settings in ``agentbench.toml`` of the current directory, if it exists."""
    return [layer(str(PROJECT_FILE), read_toml(PROJECT_FILE))] if PROJECT_FILE.exists() else []


def base_layers(app: App) -> Sequence[Layer]:
    """The layers below variants and flags."""
    return [installed_layer(app.registry), *project_layers()]


def installed_layer(registry: Registry) -> Layer:
    """Defaults that depend on the installed plugins: all auditors."""
    return layer("installed", {"auditors": registry.names("auditor")})


def run_settings() -> RunSettings:
    """The project's run settings, for commands that do not run anything."""
    return resolve(project_layers()).settings.run


def flag_layers(typed: Mapping[str, Any], obstacles: Obstacles | None = None) -> Sequence[Layer]:
    """One layer per flag, so that the origin of a setting is its flag; ``--set`` comes last.

    Invalid flags are left out and added to ``obstacles``; without ``obstacles``, raises an InputError that lists them.
    """
    problems, layers = Obstacles() if obstacles is None else obstacles, []
    for flag, key in _SETTINGS.items():
        if typed.get(flag) is not None:
            section, _, leaf = key.partition(".")
            origin = f"--{flag.replace('_', '-')}"
            with problems.gathered():
                layers.append(layer(origin, {section: {leaf: typed[flag]}}))
    for text in typed["assignments"]:
        with problems.gathered():
            layers.append(assignment(text))
    if obstacles is None:
        problems.refuse()
    return layers


tasks_flag = click.option(
    "--tasks",
    "root",
    metavar="DIR",
    default=lambda: run_settings().tasks,
    show_default=False,
    help="Directory that contains the suites. [default: tasks]",
)
"""``--tasks`` for commands that do not run anything."""


def runs_directory() -> Path:
    """The directory of run directories in the project's settings."""
    return Path(run_settings().out)
