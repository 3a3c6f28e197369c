"""``agentbench plugins``: list components and plugins, and show their options."""

from __future__ import annotations

import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

import click

from agentbench_core.cli.app import TAKEN, App, print_json, print_table, say
from agentbench_core.cli.completion import names_of
from agentbench_core.cli.flags import OneOf
from agentbench_core.errors import PluginError, UnknownNameError, did_you_mean
from agentbench_core.plugin.contracts import Tool
from agentbench_core.plugin.discovery import Plugin
from agentbench_core.plugin.kinds import REGISTRATIONS
from agentbench_core.plugin.registry import ADVERSARY, Component, Provenance
from agentbench_core.schema import OptionDescription, describe

_Row = tuple[str, str, str]


def rows_of_plugins(app: App, kind: str | None) -> list[dict[str, str]]:
    """One row per component, and one per plugin that registers no component."""
    conflicts = _conflicts(app)
    rows = [_row(c.name, c.kind, c.source, _status(c, conflicts), _summary(c)) for c in app.registry.all(kind)]
    with_components = {component.source for component in app.registry.all()}
    for plugin in app.plugins.plugins:
        if plugin.source not in with_components and kind is None:
            source = plugin.source
            rows.append(_row(source.plugin, "plugin", source, plugin.status, plugin.problem or "registers nothing"))
    return rows


def print_plugins(app: App, kind: str | None) -> None:
    """Print a section per kind, then unused plugins, then next steps."""
    conflicts = _conflicts(app)
    sections: list[tuple[str, list[_Row]]] = []
    for each in (kind,) if kind else REGISTRATIONS:
        components = app.registry.all(each)
        head = f"{REGISTRATIONS[each].plural.upper()}  {REGISTRATIONS[each].usage}"
        adversaries = [c for c in components if ADVERSARY in c.capabilities and kind is None]
        rows = [_line(component, conflicts) for component in components if component not in adversaries]
        rows += [_only_number(adversaries)] if adversaries else []
        sections.append((head, rows or [("(none)", "", "")]))
    silent = {plugin.source for plugin in app.plugins.plugins} - {c.source for c in app.registry.all()}
    unused = [
        (p.source.plugin, _origin(p.source), f"{p.status}: {p.problem or 'registers nothing'}")
        for p in app.plugins.plugins
        if p.source in silent
    ]
    sections += [("UNUSED", unused)] if unused else []
    widths = [max(len(row[column]) for _, rows in sections for row in rows) for column in (0, 1)]
    for head, rows in sections:
        say(head)
        for row in rows:
            _print_row(row, widths)
        say()
    if kind is None:
        distributions = {component.source.distribution for component in app.registry.all()}
        say(f"Components: {len(app.registry.all())}. Distributions: {len(distributions)}.")
    say("To see options: agentbench plugins show NAME. To write a plugin: agentbench plugins new NAME --kind KIND")


def _only_number(adversaries: Sequence[Component]) -> _Row:
    origins = sorted({_origin(component.source) for component in adversaries})
    how = "for `agentbench tasks attack`; see: agentbench plugins list --kind agent"
    return f"{len(adversaries)} {'adversary' if len(adversaries) == 1 else 'adversaries'}", ", ".join(origins), how


def _line(component: Component, conflicts: Iterable[tuple[str, str]]) -> _Row:
    conflict = "CONFLICT, see `agentbench plugins check`: " if _status(component, conflicts) == "conflict" else ""
    return component.name, _origin(component.source), f"{conflict}{_summary(component)}"


def _print_row(row: _Row, widths: Sequence[int]) -> None:
    """Print a row on one line; on a terminal, wrap the summary within its column."""
    start = "  ".join(["", *(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), ""])
    columns = shutil.get_terminal_size().columns - len(start)
    lines = textwrap.wrap(row[2], columns) or [""] if sys.stdout.isatty() and columns >= 30 else [row[2]]
    say(f"{start}{lines[0]}".rstrip())
    for line in lines[1:]:
        say(f"{' ' * len(start)}{line}")


def _conflicts(app: App) -> set[tuple[str, str]]:
    return {*app.registry.conflicts(), *(("command", name) for name in TAKEN)}


def _status(component: Component, conflicts: Iterable[tuple[str, str]]) -> str:
    return "conflict" if any((component.kind, name) in conflicts for name in component.names) else "ok"


def _summary(component: Component) -> str:
    aliases = ", ".join(sorted(component.aliases))
    return f"{component.summary} (also called {aliases})" if aliases else component.summary


def _origin(source: Provenance) -> str:
    return f"{source.distribution} {source.version}"


def _row(name: str, kind: str, source: Provenance, status: str, summary: str) -> dict[str, str]:
    return {
        "name": name,
        "kind": kind,
        "distribution": source.distribution,
        "version": source.version,
        "status": status,
        "summary": summary,
    }


@click.command("list")
@click.option("--kind", type=OneOf(list(REGISTRATIONS)), help="Only components of this kind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_obj
def list_plugins(app: App, kind: str | None, as_json: bool) -> None:
    """List components by kind with their distributions, then unused plugins and why they are unused."""
    if as_json:
        print_json(rows_of_plugins(app, kind))
    else:
        print_plugins(app, kind)


@click.command("show")
@click.argument("name", shell_complete=names_of(*REGISTRATIONS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_context
def show_plugin(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the components named NAME, or all components of the plugin NAME, with their options."""
    app: App = ctx.obj
    debug = bool(ctx.find_root().params.get("debug"))
    registry = app.registry
    chosen = [c for c in registry.all() if name in c.names] or [c for c in registry.all() if c.source.plugin == name]
    unusable = [p for p in app.plugins.plugins if p.source.plugin == name and p.status != "ok"]
    if not chosen and not unusable:
        known = {each for c in registry.all() for each in c.names} | {p.source.plugin for p in app.plugins.plugins}
        raise UnknownNameError(
            f"no component or plugin is named {name!r}{did_you_mean(name, known)}",
            remedy="See: agentbench plugins list",
        )
    if as_json:
        print_json([*map(_unusable_as_plain, unusable), *map(_as_plain, chosen)])
        return
    for plugin in unusable:
        say(f"plugin {name!r} from {plugin.source.distribution} is not loaded: {plugin.problem}")
        if plugin.error and debug:
            say("".join(traceback.format_exception(plugin.error)))
        elif plugin.error:
            say(f"See the traceback: agentbench --debug plugins show {name}")
            say(f"Upgrade or remove it: pip install -U {plugin.source.distribution}")
    for component in chosen:
        _show(component)


def _show_arguments(tool: Tool) -> None:
    properties = tool.spec.parameters.get("properties", {})
    required = tool.spec.parameters.get("required", ())
    rows = [
        (f"  {name}", _schema_type(schema), "required" if name in required else "", schema.get("description", ""))
        for name, schema in properties.items()
    ]
    say()
    say(f"  effect: {tool.spec.effect or 'not declared'}")
    if rows:
        print_table(("  ARGUMENT", "TYPE", "", "HELP"), rows)


def _schema_type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_schema_type(choice) for choice in schema["anyOf"])
    return str(schema.get("type", "any"))


def _aliases(component: Component) -> str:
    return ", ".join(sorted(component.aliases))


def _unusable_as_plain(plugin: Plugin) -> dict[str, object]:
    source = plugin.source
    return {
        "name": source.plugin,
        "kind": "plugin",
        "status": plugin.status,
        "problem": plugin.problem,
        "distribution": source.distribution,
        "version": source.version,
    }


def _as_plain(component: Component) -> dict[str, object]:
    return {
        "name": component.name,
        "aliases": sorted(component.aliases),
        "kind": component.kind,
        "summary": component.summary,
        "capabilities": sorted(component.capabilities),
        "plugin": component.source.plugin,
        "distribution": component.source.distribution,
        "version": component.source.version,
        "options": [
            {"name": o.name, "type": o.type, "default": o.default, "help": o.help} for o in _options(component)
        ],
    }


def _options(component: Component) -> tuple[OptionDescription, ...]:
    try:
        return describe(component.options) if component.options else ()
    except Exception as error:
        raise PluginError(
            f"the options of {component.kind} {component.name!r} failed to load: {type(error).__name__}: {error}",
            remedy=f"To diagnose it: agentbench plugins check {component.source.plugin}",
        ) from error


def _show(component: Component) -> None:
    import yaml  # slow to import, and not needed to list plugins

    from agentbench_core.converter import load

    source = component.source
    say(f"{component.kind} {component.name}: {component.summary}")
    say(f"  from {source.distribution} {source.version}, plugin {source.plugin!r}")
    if component.aliases:
        say(f"  also called: {_aliases(component)}")
    if component.capabilities:
        say(f"  capabilities: {', '.join(sorted(component.capabilities))}")
    if component.kind == "sandbox" and "isolated" not in component.capabilities:
        say("  NOT ISOLATED: commands run with your user's permissions")
    if component.kind == "variant":
        say(f"  settings: {yaml.safe_dump(dict(component.target), default_flow_style=True).strip()}")
    if component.kind == "command":
        say(f"  try: agentbench {component.name} --help")
    if component.options:
        rows = [(f"  {o.name}", o.type, o.default, o.help) for o in _options(component)]
        if rows:
            print_table(("  OPTION", "TYPE", "DEFAULT", "HELP"), rows)
        else:
            say("  no options")
    if component.kind == "tool" and component.options:
        _show_arguments(component.make(load({}, component.options, where=component.name)))
    say()
