"""Flags that become layers of settings. Only flags that the user passed become layers, never defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.completion import names_of, suite_names, task_ids, variants
from agentbench_core.cli.run_names import RunParameter
from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.inputs.config import Layer, Resolved, RunSettings, assignment, layer, recorded, resolve
from agentbench_core.inputs.documents import read_toml
from agentbench_core.inputs.suite import Task
from agentbench_core.inputs.variants import Presets, default_model, find_variant, read_presets, with_preset
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
    help="Set any setting, such as limits.max_steps=10; `agentbench config show` lists them. Repeatable.",
)  #: adds `--set KEY=VALUE` as `assignments`
_workers_flag = click.option("--workers", type=int, help="Number of attempts to run in parallel. [default: 2]")
task_flag = click.option(
    "--task",
    "task_globs",
    metavar="GLOB",
    shell_complete=task_ids,
    multiple=True,
    help="Use only tasks whose id matches GLOB, such as 'fix-*'. Repeatable.",
)  #: adds `--task GLOB` as `task_globs`
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")  #: adds `--json`
_out_flag = click.option("--out", metavar="DIR", help="Directory for run directories. [default: artifacts/runs]")


def _all_of(*flags: Callable[[F], F]) -> Callable[[F], F]:
    """A decorator that adds flags, which `--help` lists in this order."""

    def add(command: F) -> F:
        return functools.reduce(lambda decorated, flag: flag(decorated), reversed(flags), command)

    return add


replay_flags = _all_of(
    click.option("--tasks", metavar="DIR", help="Directory of suites. [default: same as the original run]"),
    click.option(
        "--sandbox",
        metavar="NAME",
        shell_complete=names_of("sandbox"),
        help="Sandbox to use instead. [default: same as the original run]",
    ),
    click.option(
        "--workers", type=int, help="Number of attempts to run in parallel. [default: same as the original run]"
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
    click.option("--tasks", metavar="DIR", help="Directory of suites. [default: tasks]"),
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
    click.option("--repeats", type=int, help="Number of attempts per task and variant. [default: 1]"),
    _out_flag,
    set_flag,
)
"""The flags that select variants and control the run."""

settings_flags = _all_of(suite_flags, variant_flags)


def resolved_variants(
    app: App,
    typed: Mapping[str, Any],
    find: Callable[[RunSettings], Sequence[Task]] = lambda _: (),
    *,
    allow_unisolated: bool = False,
) -> tuple[Mapping[str, Resolved], Sequence[Task]]:
    """The settings of each variant by name, and the tasks that ``find`` returns for them.

    Layers, lowest first: defaults, the sandbox for agents that use a model, the model preset, the project file, the
    variant, flags. Raises InputError for invalid settings, and if variants use different sandboxes.
    """
    presets = read_presets()
    flags = flag_layers(typed)

    def resolved(own: Sequence[Layer], below: Sequence[Layer] = ()) -> Resolved:
        return resolve(with_preset([*below, *base_layers(app), *own, *flags], presets), app.registry.name_of)

    own_layers = _typed_variants(app, typed)
    results = {name: resolved(own) for name, own in own_layers.items()}
    tasks = find(next(iter(results.values())).settings.run)  # run settings are the same for all variants
    with_model = [name for name, result in results.items() if _uses_model(result, tasks, app.registry)]
    risky = any(not app.registry.can("llm", results[name].settings.llm.name, "offline") for name in with_model)
    sandbox = _shared_sandbox(results, app.registry, isolated=risky and not allow_unisolated)
    for name, own in own_layers.items():
        model = default_model(results[name], presets) if name in with_model else ()
        for source in model:
            say(
                f"note: using model {presets.default} ({source.origin}); to use a different one: --model NAME", err=True
            )
        results[name] = resolved(own, [*sandbox, *model, *_only_model(results[name], app.registry)])
        _note_near_preset(results[name], presets)
    chosen = {name: result.settings.sandbox for name, result in results.items()}
    if any(used != next(iter(chosen.values())) for used in chosen.values()):
        raise InputError(
            f"variants use different sandboxes: {', '.join(f'{name} {used.name}' for name, used in chosen.items())}",
            remedy="Use one sandbox for all of them: --sandbox NAME. Or run the variants one at a time.",
        )
    return {name or result.settings.agent.name or "default": result for name, result in results.items()}, tasks


def _typed_variants(app: App, typed: Mapping[str, Any]) -> Mapping[str, Sequence[Layer]]:
    """The layers of each variant, by name. If none was passed, there is one unnamed variant without layers."""
    if len(typed["variant"]) > 1 and typed.get("agent"):
        raise click.UsageError("--agent would override the agent of every variant; pass at most one --variant")
    shipped = {c.name: c.target for c in app.registry.all("variant")}
    results: dict[str, Sequence[Layer]] = {}
    for given in typed["variant"]:
        if given in shipped:
            app.registry.find("variant", given)  # raises if two plugins register it
        name, variant = find_variant(given, shipped)
        if name in results:
            raise click.UsageError(f"variant {name!r} was passed twice")
        results[name] = [variant]
    return results or {"": []}


def _uses_model(resolved: Resolved, tasks: Sequence[Task], registry: Registry) -> bool:
    """Whether an agent of the variant uses a model."""
    agent = resolved.settings.agent.name
    names = {agent} if agent else {task.spec.agent.entrypoint for task in tasks}
    return any("needs_llm" in component.capabilities and names & component.names for component in registry.all("agent"))


def _only_model(resolved: Resolved, registry: Registry) -> Sequence[Layer]:
    """The model of an ``offline`` llm. It has the same name as the llm."""
    llm = resolved.settings.llm.name
    return [layer(f"the model of the {llm} llm", {"model": llm})] if registry.can("llm", llm, "offline") else []


def _shared_sandbox(resolved: Mapping[str, Resolved], registry: Registry, *, isolated: bool) -> Sequence[Layer]:
    """The sandbox for variants that set none: that of the other variants, or the isolated sandbox if required."""
    named = [variant.leaves for variant in resolved.values() if variant.leaves["sandbox.name"].origin != "default"]
    if named:
        leaves = {key: leaf for key, leaf in named[0].items() if key.startswith("sandbox.")}
        return [recorded(leaves["sandbox.name"].origin, leaves)]
    isolating = {component.name for component in registry.all("sandbox") if "isolated" in component.capabilities}
    if isolated and len(isolating) == 1:
        name = isolating.pop()
        say(
            f"note: using the {name} sandbox, because the agent uses a model; to use a different one: --sandbox NAME",
            err=True,
        )
        return [layer("the isolated sandbox", {"sandbox": name})]
    return []


def _note_near_preset(resolved: Resolved, presets: Presets) -> None:
    """Warn if a short model name is close to a preset's; it may still be a valid model name."""
    name = resolved.settings.model.name
    if name in presets.models or "/" in name:
        return
    nearest = did_you_mean(name, [preset for preset in presets.models if "/" not in preset])
    if nearest:
        say(f"note: no preset is named {name!r}{nearest}; passing this name to the provider unchanged", err=True)


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


def flag_layers(typed: Mapping[str, Any]) -> Sequence[Layer]:
    """One layer per flag, so that the origin of a setting is its flag; ``--set`` comes last."""
    layers = []
    for flag, key in _SETTINGS.items():
        if typed.get(flag) is not None:
            section, _, leaf = key.partition(".")
            origin = f"--{flag.replace('_', '-')}"
            layers.append(layer(origin, {section: {leaf: typed[flag]}}))
    return [*layers, *(assignment(text) for text in typed["assignments"])]


tasks_flag = click.option(
    "--tasks",
    "root",
    metavar="DIR",
    default=lambda: run_settings().tasks,
    show_default=False,
    help="Directory of suites. [default: tasks]",
)
"""``--tasks`` for commands that do not run anything."""

RUN = RunParameter(lambda: Path(run_settings().out))
"""The type of a parameter that is a run; names are searched in the output directory of the project's settings."""
