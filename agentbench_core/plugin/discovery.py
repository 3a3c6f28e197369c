"""Find plugins by entry point, load each of them alone, and keep what is wrong with those that fail."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import threading
from collections.abc import Collection, Mapping
from typing import Any, Literal

import attrs

from agentbench_core.errors import PluginError
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.loading import Trace, load_plugin
from agentbench_core.plugin.registry import Component, Provenance, Registry


@attrs.frozen(kw_only=True)
class Plugin:
    """One entry point and what became of it.

    ``problem`` is a sentence; ``error`` is for ``--debug``. ``notes`` say what it should not do, although it works.
    """

    source: Provenance
    status: Literal["ok", "broken", "disabled"]
    problem: str = ""
    error: BaseException | None = None
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Plugins:
    """All plugins of this Python environment, sorted by name, and the registry they filled."""

    plugins: tuple[Plugin, ...]
    registry: Registry
    environ: Mapping[str, str]
    """Variables of the environment as they were before any plugin was loaded."""


_LOCK = threading.RLock()
"""Held while plugins are loaded: what they print is caught, and that is nobody else's."""
_loaded: list[Plugins] = []
"""What this process has loaded last, if it has."""


def discover(disabled: Collection[str] = (), trace: Trace = lambda line: None) -> Plugins:
    """Load every plugin but the ``disabled`` ones. Never raises because of a plugin."""
    with _LOCK:
        _loaded[:] = [_discover(disabled, trace)]
        return _loaded[0]


def _discover(disabled: Collection[str], trace: Trace) -> Plugins:
    environ = dict(os.environ)
    found: list[Plugin] = []
    components: list[Component] = []
    for source, entry_point in _entry_points():
        if source.plugin in disabled:
            found.append(Plugin(source=source, status="disabled", problem="switched off by the user"))
            continue
        try:
            loaded = load_plugin(source, entry_point, trace)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the others go on
            problem = sentence(error)
            trace(f"{source.distribution}:{source.plugin}  broken: {problem}")
            found.append(Plugin(source=source, status="broken", problem=problem, error=error))
            continue
        components += loaded.components
        found.append(Plugin(source=source, status="ok", notes=loaded.notes))
    unusable = {plugin.source.plugin: plugin.problem for plugin in found if plugin.status != "ok"}
    return Plugins(plugins=tuple(found), registry=Registry(components, unusable), environ=environ)


def installed(kind: str, name: str, **options: Any) -> Any:
    """A component of another plugin, to be wrapped by one's own: ``installed("sandbox", "docker", pip_cache=False)``.

    Call it in a factory, never while plugins are loaded. There is what the command has loaded, without what the user
    switched off; where no command runs, as in a test, all that is installed. Raises UnknownNameError, PluginError (see
    :meth:`Registry.find`), and InputError for wrong options.
    """
    from agentbench_core.converter import load  # a fifth of the start of every command, and few wrap anything

    with _LOCK:
        plugins = _loaded[0] if _loaded else discover(disabled_by_environment())
    component = plugins.registry.find(kind, name)
    if component.options is None:
        raise PluginError(f"a {kind} is not made from options, so it cannot be wrapped")
    return component.make(load(options, component.options, where=f"options of {kind} {name!r}"))


def disabled_by_environment() -> frozenset[str]:
    """Names in ``AGENTBENCH_DISABLE_PLUGINS``, separated by commas."""
    names = os.environ.get("AGENTBENCH_DISABLE_PLUGINS", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def entry_point_of(source: Provenance) -> importlib.metadata.EntryPoint:
    """The entry point of a plugin that was found."""
    return next(entry_point for each, entry_point in _entry_points() if each == source)


def _entry_points() -> list[tuple[Provenance, importlib.metadata.EntryPoint]]:
    """Entry points with where they come from, sorted; the same one found twice on the path counts once."""
    by_source: dict[tuple[str, str, str], tuple[Provenance, importlib.metadata.EntryPoint]] = {}
    for distribution in importlib.metadata.distributions():
        ours = _ours(distribution)
        if not ours:
            continue  # reading the metadata of every distribution would take longer than all the rest
        name, version = _metadata(distribution, "Name"), _metadata(distribution, "Version")
        for entry_point in ours:
            source = Provenance(plugin=entry_point.name, distribution=name, version=version)
            by_source.setdefault((source.plugin, source.distribution, entry_point.value), (source, entry_point))
    return [by_source[key] for key in sorted(by_source)]


def _ours(distribution: importlib.metadata.Distribution) -> Collection[importlib.metadata.EntryPoint]:
    """The plugins of a distribution. In a file of which a line is damaged, in any group, they are read all the same."""
    with contextlib.suppress(Exception):  # files of strangers break in many ways, and none of them is ours
        return distribution.entry_points.select(group=hookspecs.PROJECT)
    found, group = [], ""
    with contextlib.suppress(OSError, ValueError):  # then nobody can say what it has
        for line in map(str.strip, (distribution.read_text("entry_points.txt") or "").splitlines()):
            name, _, value = (part.strip() for part in line.partition("="))
            if line.startswith("["):
                group = line.strip("[]")
            elif name and group == hookspecs.PROJECT and not line.startswith(("#", ";")):
                found.append(importlib.metadata.EntryPoint(name, value, group))
    return found


def _metadata(distribution: importlib.metadata.Distribution, key: str) -> str:
    """A field of a distribution's metadata; what is damaged has none. Parsing all of it as a mail takes much longer."""
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, ValueError):
        return "unknown"
    head = text.partition("\n\n")[0]
    found = re.search(rf"^{key}:[ \t]*(\S.*?)\s*$", head, re.MULTILINE)
    return found[1] if found else "unknown"


def sentence(error: BaseException) -> str:
    """What went wrong, on one line; with the name of the exception, unless it is one of ours."""
    first = str(error).strip().splitlines()
    text = first[0] if first else ""
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"
