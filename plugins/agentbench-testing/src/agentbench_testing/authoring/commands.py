"""``agentbench plugins new``, which creates a working plugin, and ``agentbench plugins check``."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import click

from agentbench_core.cli.app import TAKEN, App, print_json, say
from agentbench_core.cli.completion import plugin_names
from agentbench_core.cli.flags import OneOf, run_settings
from agentbench_core.errors import AgentBenchError, UnknownNameError, did_you_mean
from agentbench_core.inputs.config import layer, resolve
from agentbench_core.inputs.variants import SECTIONS
from agentbench_core.plugin.discovery import Plugin
from agentbench_core.plugin.registry import Component
from agentbench_core.run.variant import default_options
from agentbench_testing.authoring.component_checks import Finding, check_attack, ok, problem, surviving
from agentbench_testing.authoring.plugin_checks import check_plugin
from agentbench_testing.authoring.scaffold import PLUGIN_KINDS, NewPlugin, write_plugin

_LOADED_ANYWAY = ("agentbench_core.cli.main", "agentbench_core.plugin.discovery")


@click.command("new")
@click.argument("name")
@click.option("--kind", type=OneOf(list(PLUGIN_KINDS)), required=True, help="Component kind.")
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default=".",
    help="Parent directory for the new plugin.",
)
@click.pass_obj
def new_plugin(app: App, name: str, kind: str, into: Path) -> None:
    """Create a working plugin as a starting point: a distribution with code, tests, README and CI.

    NAME is the name that users type, such as my-agent. The distribution is named agentbench-my-agent.
    """
    taken = {alias for component in app.registry.all(kind) for alias in component.names}
    made = write_plugin(into, name, kind, taken=taken)
    say(f"created {made.directory}: {PLUGIN_KINDS[kind].summary}")
    say()
    for command in _steps(made):
        say(f"  {command}")
    say()
    say(f"then edit: {made.directory / 'src' / made.names.module / 'plugin.py'}")


def _steps(made: NewPlugin) -> Iterator[str]:
    """The next commands, as typed in the current directory."""
    directory, agentbench = _with_slash(made.directory), _program("agentbench")
    yield f"{_program('pip')} install -e {shlex.quote(f'{directory}[test]')}"
    yield f"{agentbench} plugins check {made.names.component}"
    yield f"{_program('pytest')} {shlex.quote(directory)}"
    settings = run_settings()
    task = _some_task(Path(settings.tasks), settings.suite)
    if task is None:
        yield f"{agentbench} tasks new first --suite mine"
        task = Path(settings.tasks, "mine/first")
    yield f"{agentbench} run-task --task {shlex.quote(str(task))} {made.run}"


def _with_slash(directory: Path) -> str:
    """The path in a form that pip does not mistake for a distribution name."""
    text = str(directory)
    return text if os.sep in text else f"./{text}"


def _program(name: str) -> str:
    """How to start a program of this environment: by name if a shell would find it, otherwise by path."""
    path = Path(sys.executable).parent / name
    result = shutil.which(name)
    if not path.exists() or (result is not None and Path(result).absolute() == path):
        return name
    directory = Path.cwd()
    return shlex.quote(str(path.relative_to(directory) if path.is_relative_to(directory) else path))


def _some_task(root: Path, suite: str) -> Path | None:
    """A task, preferably in the default suite; ``None`` if there is no task."""
    results = sorted(root.glob("*/*/task.yaml"))
    usual = [path for path in results if path.parent.parent.name == suite]
    return next((path.parent for path in (*usual, *results)), None)


@click.command("check")
@click.argument("name", required=False, shell_complete=plugin_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_obj
def check_plugins(app: App, name: str | None, as_json: bool) -> int:
    """Check all plugins, or those selected by NAME: a plugin, a distribution or a component.

    Checks loading, registration, options, component methods and metadata. No task is needed. Use the classes in
    agentbench_testing to check that components behave as required. The exit code is 1 if there is an error.
    """
    checked = {
        plugin: [*check_plugin(plugin, app.plugins, _LOADED_ANYWAY), *_others(app, plugin)]
        for plugin in _selected(app, name)
    }
    results = [finding for findings in checked.values() for finding in findings]
    if as_json:
        print_json(
            [
                {
                    **attrs.asdict(plugin.source),
                    "status": plugin.status,
                    "findings": [attrs.asdict(f) for f in findings],
                }
                for plugin, findings in checked.items()
            ]
        )
    else:
        for plugin, findings in checked.items():
            _print(plugin, findings, full=name is not None)
        problems, warnings = (sum(finding.level == level for finding in results) for level in ("error", "warning"))
        say(f"checked {_count(len(checked), 'plugin')}: {_count(problems, 'error')}, {_count(warnings, 'warning')}")
    return 1 if any(finding.level == "error" for finding in results) else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _selected(app: App, name: str | None) -> Sequence[Plugin]:
    """Select plugins by plugin name, distribution name, or the name of a component."""
    everything = app.plugins.plugins
    if name is None:
        return everything
    owners = {component.source for component in app.registry.all() if name in component.names}
    named = [p for p in everything if name in (p.source.plugin, p.source.distribution)]
    chosen = named or [p for p in everything if p.source in owners]
    if not chosen:
        known = {alias for p in everything for alias in (p.source.plugin, p.source.distribution)}
        known |= {alias for component in app.registry.all() for alias in component.names}
        raise UnknownNameError(
            f"no component or plugin is named {name!r}{did_you_mean(name, known)}",
            remedy="Install it in this environment (pip install -e .), and check: agentbench plugins list",
        )
    return chosen


def _others(app: App, plugin: Plugin) -> Iterator[Finding]:
    """Check commands, attacks and variants, which have no factory."""
    checks: dict[str, Callable[[Component], Iterator[Finding]]] = {
        "command": _command,
        "attack": check_attack,
        "variant": partial(_variant, app),
    }
    for component in app.registry.all():
        if component.source == plugin.source and component.kind in checks:
            yield from surviving(checks[component.kind](component), f"the {component.name!r} {component.kind}")


def _command(component: Component) -> Iterator[Finding]:
    if component.name in TAKEN:
        yield problem(
            f"the {component.name!r} command cannot be used: the core has a command with that name",
            "Choose another name.",
        )
        return
    module, _, attribute = component.target.partition(":")
    result = getattr(importlib.import_module(module), attribute)
    if not isinstance(result, click.Command):
        yield problem(f"command {component.name!r}: {component.target} is not a click command")
    elif not result.help:
        yield problem(f"the {component.name!r} command has no help", "Give it a docstring.")
    else:
        yield ok(f"command {component.name!r}: loads and has help text")


def _variant(app: App, component: Component) -> Iterator[Finding]:
    where = f"the {component.name!r} variant"
    try:
        resolved = resolve([layer(where, component.target, sections=SECTIONS)], app.registry.name_of)
        default_options(resolved, app.registry)  # resolves every named component, and validates its options
    except AgentBenchError as error:
        yield problem(f"{where} is invalid: {error.message.removeprefix(f'{where}: ')}", error.remedy)
        return
    yield ok(f"variant {component.name!r}: valid settings")


def _print(plugin: Plugin, findings: Sequence[Finding], *, full: bool) -> None:
    """Print all results of one plugin; for several plugins, passed checks are only counted."""
    say(f"{plugin.source.distribution} {plugin.source.version}, plugin {plugin.source.plugin!r}")
    passed = sum(finding.level == "ok" for finding in findings)
    if passed and not full:
        say(f"  {'ok':7}  {_count(passed, 'check')}; to list them: agentbench plugins check {plugin.source.plugin}")
    for finding in findings:
        if full or finding.level != "ok":
            say(f"  {finding.level:7}  {finding.text}")
            for line in finding.remedy.splitlines():
                say(f"  {'':7}  -> {line}")
    say()
