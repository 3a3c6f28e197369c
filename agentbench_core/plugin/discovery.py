"""Find plugins by entry point, load each of them alone, and keep what is wrong with those that fail."""

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
    for source, value in _entry_points():
        if source.plugin in disabled:
            found.append(Plugin(source=source, status="disabled", problem="disabled by the user"))
            continue
        try:
            loaded = load_plugin(source, value, trace)
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
        raise PluginError(f"a {kind} has no options, so it cannot be wrapped")
    return component.make(load(options, component.options, where=f"options of {kind} {name!r}"))


def disabled_by_environment() -> frozenset[str]:
    """Names in ``AGENTBENCH_DISABLE_PLUGINS``, separated by commas."""
    names = os.environ.get("AGENTBENCH_DISABLE_PLUGINS", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def entry_point_of(source: Provenance) -> str:
    """What the entry point of a plugin that was found says, such as ``package.plugin``."""
    return next(value for each, value in _entry_points() if each == source)


def _entry_points() -> list[tuple[Provenance, str]]:
    """Where plugins come from and what their entry points say, sorted; one found twice on the path counts once.

    Reads the directories that installers write (PyPA, Recording installed projects; Entry points specification), as
    ``importlib.metadata`` does. To import that takes a fifth of the start of every command.
    """
    by_source: dict[tuple[str, str, str], tuple[Provenance, str]] = {}
    for directory in _metadata_directories():
        ours = _ours(directory)
        if not ours:
            continue  # reading the metadata of every distribution would take longer than all the rest
        distribution, version = _metadata(directory, "Name"), _metadata(directory, "Version")
        for name, value in ours.items():
            source = Provenance(plugin=name, distribution=distribution, version=version)
            by_source.setdefault((source.plugin, source.distribution, value), (source, value))
    return [by_source[key] for key in sorted(by_source)]


def _metadata_directories() -> Iterator[Path]:
    """Those of all distributions on the path, in its order."""
    for place in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError):  # not there, not ours to read, or a zip file
            yield from sorted(each for each in Path(place).iterdir() if each.suffix in (".dist-info", ".egg-info"))


def _ours(directory: Path) -> Mapping[str, str]:
    """The plugins of a distribution. In a file of which a line is damaged, in any group, they are read all the same."""
    found, group = {}, ""
    for line in map(str.strip, _read(directory, "entry_points.txt").splitlines()):
        name, _, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif name and group == hookspecs.PROJECT and not line.startswith(("#", ";")):
            found[name] = value
    return found


def _metadata(directory: Path, key: str) -> str:
    """A field of a distribution's metadata; what is damaged has none."""
    text = _read(directory, "METADATA") or _read(directory, "PKG-INFO")
    found = re.search(rf"^{key}:[ \t]*(\S.*?)\s*$", text.partition("\n\n")[0], re.MULTILINE)
    return found[1] if found else "unknown"


def _read(directory: Path, name: str) -> str:
    """A file of a distribution; empty where it is not there, or damaged: files of strangers break in many ways."""
    try:
        return (directory / name).read_text("utf-8")
    except (OSError, ValueError):
        return ""


def sentence(error: BaseException) -> str:
    """What went wrong, on one line; with the name of the exception, unless it is one of ours."""
    first = str(error).strip().splitlines()
    text = first[0] if first else ""
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"
