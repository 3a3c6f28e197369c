"""Discover plugins by entry point, load each of them separately, and record the errors of plugins that fail."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core.errors import PluginError
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.loading import Trace, load_plugin, untraced
from agentbench_core.plugin.registry import Component, Provenance, Registry


@attrs.frozen(kw_only=True)
class Plugin:
    """One entry point and the result of loading it.

    ``problem`` is a sentence; ``error`` is for ``--debug``. ``notes`` are minor problems of a plugin that works.
    """

    source: Provenance
    status: Literal["ok", "broken", "disabled"]
    problem: str = ""
    error: BaseException | None = None
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Plugins:
    """All plugins of this Python environment, sorted by name, and the registry that they filled."""

    plugins: tuple[Plugin, ...]
    registry: Registry
    environ: Mapping[str, str]
    """The environment variables before any plugin was loaded."""


_LOCK = threading.RLock()
"""Held while plugins are loaded, because output is captured for the whole process."""
_loaded: list[Plugins] = []
"""The last result in this process, if any."""


def discover(disabled: Collection[str] = (), trace: Trace = untraced) -> Plugins:
    """Load every plugin except the ``disabled`` ones. Errors in a plugin are recorded, never raised."""
    with _LOCK:
        _loaded[:] = [_discover(disabled, trace)]
        return _loaded[0]


def _discover(disabled: Collection[str], trace: Trace) -> Plugins:
    environ = dict(os.environ)
    results: list[Plugin] = []
    components: list[Component] = []
    for source, value in _entry_points():
        if source.plugin in disabled:
            results.append(Plugin(source=source, status="disabled", problem="disabled by the user"))
            continue
        try:
            loaded = load_plugin(source, value, trace)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken plugin must not affect the others
            problem = sentence(error)
            trace(f"{source.distribution}:{source.plugin}  broken: {problem}")
            results.append(Plugin(source=source, status="broken", problem=problem, error=error))
            continue
        components += loaded.components
        results.append(Plugin(source=source, status="ok", notes=loaded.notes))
    unusable = {plugin.source.plugin: plugin.problem for plugin in results if plugin.status != "ok"}
    return Plugins(plugins=tuple(results), registry=Registry(components, unusable), environ=environ)


def installed(kind: str, name: str, **options: Any) -> Any:
    """A component of another plugin, to be wrapped: ``installed("sandbox", "docker", pip_cache=False)``.

    Call it in a factory, never while plugins are loaded. It finds components of the plugins loaded by the command or,
    outside a command (as in a test), of all installed plugins except disabled ones. Raises UnknownNameError or
    PluginError (see :meth:`Registry.find`), and InputError for invalid options.
    """
    from agentbench_core.converter import load  # slow to import, and rarely needed

    with _LOCK:
        plugins = _loaded[0] if _loaded else discover(disabled_by_environment())
    component = plugins.registry.find(kind, name)
    if component.options is None:
        raise PluginError(f"a {kind} has no options, so it cannot be wrapped")
    return component.make(load(options, component.options, where=f"options of {kind} {name!r}"))


def disabled_by_environment() -> frozenset[str]:
    """The plugin names in the comma-separated list ``AGENTBENCH_DISABLE_PLUGINS``."""
    names = os.environ.get("AGENTBENCH_DISABLE_PLUGINS", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def entry_point_of(source: Provenance) -> str:
    """The value of the entry point of a plugin, such as ``package.plugin``."""
    return next(value for each, value in _entry_points() if each == source)


def _entry_points() -> list[tuple[Provenance, str]]:
    """Plugins and the values of their entry points, sorted; a plugin that is found twice on the path is listed once.

    Reads the directories written by installers (PyPA: Recording installed projects; Entry points specification), as
    ``importlib.metadata`` does; importing that module would take a fifth of the start time of every command.
    """
    by_source: dict[tuple[str, str, str], tuple[Provenance, str]] = {}
    for directory in _metadata_directories():
        ours = _ours(directory)
        if not ours:
            continue  # reading the metadata of every distribution would be slow
        distribution, version = _metadata(directory, "Name"), _metadata(directory, "Version")
        for name, value in ours.items():
            source = Provenance(plugin=name, distribution=distribution, version=version)
            by_source.setdefault((source.plugin, source.distribution, value), (source, value))
    return [by_source[key] for key in sorted(by_source)]


def _metadata_directories() -> Iterator[Path]:
    """The directories of all distributions on the path, in the order of the path."""
    for entry in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError):  # missing, not readable, or a zip file
            with os.scandir(entry or ".") as files:
                found = sorted(file.path for file in files if file.name.endswith((".dist-info", ".egg-info")))
            yield from map(Path, found)


def _ours(directory: Path) -> Mapping[str, str]:
    """The values of a distribution's plugin entry points, by name. A damaged line does not affect other lines."""
    text = _read(directory, "entry_points.txt")
    result, group = {}, ""
    # Most distributions have no entry points for this project.
    for line in map(str.strip, text.splitlines() if hookspecs.PROJECT in text else ()):
        name, _, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif name and group == hookspecs.PROJECT and not line.startswith(("#", ";")):
            result[name] = value
    return result


def _metadata(directory: Path, key: str) -> str:
    """A field of a distribution's metadata; ``unknown`` if it is missing or damaged."""
    text = _read(directory, "METADATA") or _read(directory, "PKG-INFO")
    result = re.search(rf"^{key}:[ \t]*(\S.*?)\s*$", text.partition("\n\n")[0], re.MULTILINE)
    return result[1] if result else "unknown"


def _read(directory: Path, name: str) -> str:
    """A file of a distribution; empty if it is missing or damaged."""
    try:
        return (directory / name).read_text("utf-8")
    except (OSError, ValueError):
        return ""


def sentence(error: BaseException) -> str:
    """The first line of an error, with the name of the exception unless it is a PluginError."""
    first = str(error).strip().splitlines()
    text = first[0] if first else ""
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"
