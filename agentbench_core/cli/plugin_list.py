"""The list of plugins: for people, a section per kind; for programs, rows."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from agentbench_core.cli.app import TAKEN, App, say
from agentbench_core.plugin.kinds import REGISTRATIONS
from agentbench_core.plugin.registry import ADVERSARY, Component, Provenance

_Row = tuple[str, str, str]


def rows_of_plugins(app: App, kind: str | None) -> list[dict[str, str]]:
    """A row per component, and one per plugin that registers none."""
    conflicts = _conflicts(app)
    rows = [_row(c.name, c.kind, c.source, _status(c, conflicts), _summary(c)) for c in app.registry.all(kind)]
    with_components = {component.source for component in app.registry.all()}
    for plugin in app.plugins.plugins:
        if plugin.source not in with_components and kind is None:
            source = plugin.source
            rows.append(_row(source.plugin, "plugin", source, plugin.status, plugin.problem or "registers nothing"))
    return rows


def print_plugins(app: App, kind: str | None) -> None:
    """Print a section per kind, then what is not in use, then what to do next."""
    conflicts = _conflicts(app)
    sections: list[tuple[str, list[_Row]]] = []
    for each in (kind,) if kind else REGISTRATIONS:
        components = app.registry.all(each)
        head = f"{REGISTRATIONS[each].plural.upper()}  {REGISTRATIONS[each].usage}"
        adversaries = [one for one in components if ADVERSARY in one.capabilities and kind is None]
        rows = [_line(component, conflicts) for component in components if component not in adversaries]
        rows += [_only_number(adversaries)] if adversaries else []
        sections.append((head, rows or [("(none)", "", "")]))
    silent = {plugin.source for plugin in app.plugins.plugins} - {c.source for c in app.registry.all()}
    unused = [
        (p.source.plugin, _origin(p.source), f"{p.status}: {p.problem or 'registers nothing'}")
        for p in app.plugins.plugins
        if p.source in silent
    ]
    sections += [("NOT IN USE", unused)] if unused else []
    widths = [max(len(row[column]) for _, rows in sections for row in rows) for column in (0, 1)]
    for head, rows in sections:
        say(head)
        for row in rows:
            _print_row(row, widths)
        say()
    if kind is None:
        distributions = {component.source.distribution for component in app.registry.all()}
        say(f"{len(app.registry.all())} components of {len(distributions)} distributions.")
    say("Options of one: agentbench plugins show NAME. One of your own: agentbench plugins new NAME --kind KIND")


def _only_number(adversaries: Sequence[Component]) -> _Row:
    origins = sorted({_origin(component.source) for component in adversaries})
    how = "for `agentbench tasks attack`; see: agentbench plugins list --kind agent"
    return f"{len(adversaries)} adversaries", ", ".join(origins), how


def _line(component: Component, conflicts: Iterable[tuple[str, str]]) -> _Row:
    conflict = "CONFLICT, see `agentbench plugins check`: " if _status(component, conflicts) == "conflict" else ""
    return component.name, _origin(component.source), f"{conflict}{_summary(component)}"


def _print_row(row: _Row, widths: Sequence[int]) -> None:
    """A row on one line; on a terminal the summary stays in its column."""
    start = "  ".join(["", *(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), ""])
    room = shutil.get_terminal_size().columns - len(start)
    lines = textwrap.wrap(row[2], room) or [""] if sys.stdout.isatty() and room >= 30 else [row[2]]
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
