"""The variants that flags select: the settings of each one, from all layers, and the tasks that they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.flags import flag_layers, installed_layer, project_layers
from agentbench_core.errors import InputError, Obstacles, did_you_mean
from agentbench_core.inputs.config import Layer, Resolved, RunSettings, layer, recorded, resolve
from agentbench_core.inputs.suite import Task
from agentbench_core.inputs.variants import Presets, default_model, find_variant, read_presets, with_preset
from agentbench_core.plugin.registry import Registry


@attrs.frozen(kw_only=True)
class Selection:
    """The selection made by the flags of a command."""

    variants: Mapping[str, Resolved]  #: the settings of each variant by name; without variants that are invalid
    tasks: Sequence[Task]  #: the tasks; empty if they are invalid
    shared: Resolved  #: settings of the first variant; its run settings are those of all variants
    complete: bool = True  #: whether all settings could be read


def resolved_variants(
    app: App,
    typed: Mapping[str, Any],
    find: Callable[[RunSettings], Sequence[Task]] = lambda _: (),
    *,
    allow_unisolated: bool = False,
    obstacles: Obstacles | None = None,
) -> Selection:
    """The settings of each variant, and the tasks that ``find`` returns for them.

    Layers, lowest first: defaults, the sandbox for agents that use a model, the model preset, the project file, the
    variant, flags. Invalid settings, variants and tasks are left out and added to ``obstacles``, as are variants that
    use different sandboxes; without ``obstacles``, raises an InputError that lists them.
    """
    problems = Obstacles() if obstacles is None else obstacles
    presets = Presets(version="none")
    with problems.gathered():
        presets = read_presets()
    base: list[Layer] = [installed_layer(app.registry)]
    with problems.gathered():
        base += project_layers()
    flags = flag_layers(typed, problems)
    own_layers = _typed_variants(app, typed, problems)
    complete = not problems

    def resolved(own: Sequence[Layer], below: Sequence[Layer] = ()) -> Resolved:
        layers = [*below, *base, *own, *flags]
        with problems.gathered():
            layers = list(with_preset(layers, presets))
        return resolve(layers, app.registry.name_of)

    results = {name: resolved(own) for name, own in own_layers.items()}
    shared = next(iter(results.values()), None) or resolved([])
    tasks: Sequence[Task] = ()
    with problems.gathered():
        tasks = find(shared.settings.run)  # run settings are the same for all variants
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
        each = ", ".join(f"{name} {used.name}" for name, used in chosen.items())
        problems.add(
            InputError(
                f"variants use different sandboxes: {each}",
                remedy="Use one sandbox for all of them: --sandbox NAME. Or run the variants one at a time.",
            )
        )
    if obstacles is None:
        problems.refuse()
    return Selection(
        variants={name or result.settings.agent.name or "default": result for name, result in results.items()},
        tasks=tasks,
        shared=next(iter(results.values()), shared),
        complete=complete,
    )


def _typed_variants(app: App, typed: Mapping[str, Any], obstacles: Obstacles) -> Mapping[str, Sequence[Layer]]:
    """The layers of each valid variant, by name. If none was passed, there is one unnamed variant without layers."""
    if len(typed["variant"]) > 1 and typed.get("agent"):
        raise click.UsageError("--agent would override the agent of every variant; pass at most one --variant")
    shipped = {c.name: c.target for c in app.registry.all("variant")}
    results: dict[str, Sequence[Layer]] = {}
    for given in typed["variant"]:
        with obstacles.gathered():
            if given in shipped:
                app.registry.find("variant", given)  # raises if two plugins register it
            name, variant = find_variant(given, shipped)
            if name in results:
                raise click.UsageError(f"variant {name!r} was passed twice")
            results[name] = [variant]
    return results if typed["variant"] else {"": []}


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
    """The sandbox for variants that set none: the other variants' sandbox, or the isolated sandbox if required."""
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
