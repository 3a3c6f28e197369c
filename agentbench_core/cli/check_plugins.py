"""``agentbench plugins check``: what is wrong with a plugin, and how to mend it, before anybody runs it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

import attrs
import click

from agentbench_core.cli.app import TAKEN, App, print_json, say
from agentbench_core.cli.completion import plugin_names
from agentbench_core.errors import AgentBenchError, UnknownNameError, did_you_mean
from agentbench_core.inputs.config import layer, resolve
from agentbench_core.inputs.variants import SECTIONS
from agentbench_core.plugin.checking import check_plugin
from agentbench_core.plugin.discovery import Plugin
from agentbench_core.plugin.findings import Finding, ok, problem, surviving
from agentbench_core.plugin.registry import Component
from agentbench_core.run.variant import option_leaves

_LOADED_ANYWAY = ("agentbench_core.cli.main", "agentbench_core.plugin.discovery")


@click.command("check")
@click.argument("name", required=False, shell_complete=plugin_names)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def check_plugins(app: App, name: str | None, as_json: bool) -> int:
    """Look at the plugin NAME (or that of the component or distribution NAME), or at all of them.

    What can be seen without a task: how it loads, what it registers, its options, the methods of what it makes, its
    metadata. That it also does what its kind must do is shown by the classes of agentbench_testing. Exits 1 when
    there is a problem.
    """
    looked_at = {
        plugin: [*check_plugin(plugin, app.plugins, _LOADED_ANYWAY), *_others(app, plugin)]
        for plugin in _chosen(app, name)
    }
    found = [finding for findings in looked_at.values() for finding in findings]
    if as_json:
        print_json(
            [
                {
                    **attrs.asdict(plugin.source),
                    "status": plugin.status,
                    "findings": [attrs.asdict(f) for f in findings],
                }
                for plugin, findings in looked_at.items()
            ]
        )
    else:
        for plugin, findings in looked_at.items():
            _print(plugin, findings, whole=name is not None)
        problems, advised = (sum(finding.level == level for finding in found) for level in ("problem", "advice"))
        say(f"looked at {_count(len(looked_at), 'plugin')}: {_count(problems, 'problem')}, {advised} to think about")
    return 1 if any(finding.level == "problem" for finding in found) else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _chosen(app: App, name: str | None) -> Sequence[Plugin]:
    """By the plugin's own name, its distribution's, or that of a component."""
    everything = app.plugins.plugins
    if name is None:
        return everything
    owners = {component.source for component in app.registry.all() if name in component.names}
    named = [p for p in everything if name in (p.source.plugin, p.source.distribution)]
    chosen = named or [p for p in everything if p.source in owners]
    if not chosen:
        known = {each for p in everything for each in (p.source.plugin, p.source.distribution)}
        known |= {each for component in app.registry.all() for each in component.names}
        raise UnknownNameError(
            f"nothing is called {name!r}{did_you_mean(name, known)}",
            remedy="Is it installed in this environment? pip install -e . See: agentbench plugins list",
        )
    return chosen


def _others(app: App, plugin: Plugin) -> Iterator[Finding]:
    """The kinds that only the command line knows: commands and variants."""
    for component in app.registry.all():
        if component.source == plugin.source and component.kind == "command":
            yield from surviving(_command(component), f"command {component.name!r}")
        elif component.source == plugin.source and component.kind == "variant":
            yield from surviving(_variant(app, component), f"variant {component.name!r}")


def _command(component: Component) -> Iterator[Finding]:
    if component.name in TAKEN:
        yield problem(f"command {component.name!r} can never be typed: the core has one", "Choose another name.")
        return
    module, _, attribute = component.target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, click.Command):
        yield problem(f"command {component.name!r}: {component.target} is no click command")
    elif not found.help:
        yield problem(f"command {component.name!r} has no help", "Give it a docstring.")
    else:
        yield ok(f"command {component.name!r}: loads, and has its help")


def _variant(app: App, component: Component) -> Iterator[Finding]:
    where = f"variant {component.name!r}"
    try:
        resolved = resolve([layer(where, component.target, sections=SECTIONS)], app.registry.name_of)
        option_leaves(resolved, app.registry)  # finds every component that it names, and checks its options
    except AgentBenchError as error:
        yield problem(f"{where} cannot be used: {error.message.removeprefix(f'{where}: ')}", error.remedy)
        return
    yield ok(f"{where}: settings that can be used")


def _print(plugin: Plugin, findings: Sequence[Finding], *, whole: bool) -> None:
    """All that was found of one plugin; where many are looked at, what is well is only counted."""
    say(f"{plugin.source.distribution} {plugin.source.version}, plugin {plugin.source.plugin!r}")
    good = sum(finding.level == "ok" for finding in findings)
    if good and not whole:
        say(f"  {'ok':7}  {_count(good, 'check')}; each: agentbench plugins check {plugin.source.plugin}")
    for finding in findings:
        if whole or finding.level != "ok":
            say(f"  {finding.level:7}  {finding.text}")
            for line in finding.remedy.splitlines():
                say(f"  {'':7}  -> {line}")
    say()
