"""Find plugins by entry point, load each of them alone, and keep what is wrong with those that fail."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import attrs
import pluggy

from agentbench_core.errors import PluginError, did_you_mean
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.registry import CAPABILITIES, Component, Provenance, Registry

_HOOKS: Mapping[str, str] = {
    "sandbox": "agentbench_register_sandboxes",
    "llm": "agentbench_register_llms",
    "agent": "agentbench_register_agents",
    "tool": "agentbench_register_tools",
    "scorer": "agentbench_register_scorers",
    "reporter": "agentbench_register_reporters",
    "cheater": "agentbench_register_cheaters",
    "command": "agentbench_register_commands",
    "variant": "agentbench_register_variants",
}


@attrs.frozen(kw_only=True)
class Plugin:
    """One entry point and what became of it. ``problem`` is a sentence; ``error`` is for ``--debug``."""

    source: Provenance
    status: Literal["ok", "broken", "disabled"]
    problem: str = ""
    error: BaseException | None = None


@attrs.frozen(kw_only=True)
class Plugins:
    """All plugins of this Python environment, sorted by name, and the registry they filled."""

    plugins: tuple[Plugin, ...]
    registry: Registry


def discover(disabled: Collection[str] = ()) -> Plugins:
    """Load every plugin but the ``disabled`` ones. Never raises because of a plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    found: list[Plugin] = []
    components: list[Component] = []
    for source, entry_point in _entry_points():
        if source.plugin in disabled:
            found.append(Plugin(source=source, status="disabled", problem="switched off by the user"))
            continue
        try:
            components += _load(manager, source, entry_point)
            found.append(Plugin(source=source, status="ok"))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the others go on
            found.append(Plugin(source=source, status="broken", problem=_sentence(error), error=error))
    unusable = {plugin.source.plugin: plugin.problem for plugin in found if plugin.status != "ok"}
    return Plugins(plugins=tuple(found), registry=Registry(components, unusable))


def _entry_points() -> list[tuple[Provenance, importlib.metadata.EntryPoint]]:
    """Entry points with where they come from, sorted; the same one found twice on the path counts once."""
    by_source: dict[tuple[str, str, str], tuple[Provenance, importlib.metadata.EntryPoint]] = {}
    for distribution in importlib.metadata.distributions():
        ours = distribution.entry_points.select(group=hookspecs.PROJECT)
        if not ours:
            continue  # reading the metadata of every distribution would take longer than all the rest
        name, version = _metadata(distribution, "Name"), _metadata(distribution, "Version")
        for entry_point in ours:
            source = Provenance(plugin=entry_point.name, distribution=name, version=version)
            by_source.setdefault((source.plugin, source.distribution, entry_point.value), (source, entry_point))
    return [by_source[key] for key in sorted(by_source)]


def _metadata(distribution: importlib.metadata.Distribution, key: str) -> str:
    """A field of a distribution's metadata; what is damaged has none."""
    try:
        return str(distribution.metadata[key] or "unknown")
    except Exception:  # noqa: BLE001 - metadata of strangers breaks in many ways, and none of them is ours
        return "unknown"


def _load(
    manager: pluggy.PluginManager, source: Provenance, entry_point: importlib.metadata.EntryPoint
) -> list[Component]:
    module = entry_point.load()
    name = manager.register(module, f"{source.distribution}:{source.plugin}")
    if name is None:
        raise PluginError("the entry point is blocked")
    try:
        _check_hook_names(module)
        manager.check_pending()
        components: list[Component] = []
        others = [plugin for plugin in manager.get_plugins() if plugin is not module]
        for kind, hook in _HOOKS.items():
            caller = manager.subset_hook_caller(hook, remove_plugins=others)
            caller(register=_register(kind, source, components))
    except BaseException:
        manager.unregister(module)
        raise
    return components


def _check_hook_names(module: object) -> None:
    """A misspelt hook is an error with the nearest name, whether it is marked or not."""
    for name in dir(module):
        if name.startswith(f"{hookspecs.PROJECT}_register_") and name not in _HOOKS.values():
            raise PluginError(f"there is no hook {name!r}{did_you_mean(name, _HOOKS.values())}")
        marked = hasattr(getattr(module, name, None), f"{hookspecs.PROJECT}_impl")
        if name in _HOOKS.values() and not marked:
            raise PluginError(f"{name} is not marked with @hookimpl, so it would never be called")


def _register(kind: str, source: Provenance, into: list[Component]) -> Callable[..., None]:
    def check_name(name: str) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
            raise PluginError(f"{name!r} is no name for {_a(kind)}: small letters, digits, '_' and '-'")

    def component(
        name: str,
        factory: Callable[..., Any],
        options: type,
        *,
        summary: str,
        capabilities: Collection[str] = (),
        aliases: Collection[str] = (),
    ) -> None:
        for each in (name, *aliases):
            check_name(each)
        if not attrs.has(options):
            raise PluginError(f"the options of {kind} {name!r} are no attrs class: {options!r}")
        for field in attrs.fields(options):
            if not field.metadata.get("help"):
                raise PluginError(f"option {field.name!r} of {kind} {name!r} has no help: option(..., help=...)")
        for word in capabilities:
            if word not in CAPABILITIES[kind]:
                known = ", ".join(sorted(CAPABILITIES[kind])) or "none"
                raise PluginError(f"{kind} {name!r} declares the unknown capability {word!r}; known: {known}")
        add(name, factory, options, summary, frozenset(capabilities), frozenset(aliases))

    def plain(name: str, target: Any, *, summary: str) -> None:
        check_name(name)
        add(name, target, None, summary, frozenset(), frozenset())

    def add(
        name: str,
        target: Any,
        options: type | None,
        summary: str,
        capabilities: frozenset[str],
        aliases: frozenset[str],
    ) -> None:
        into.append(
            Component(
                kind=kind,
                name=name,
                target=target,
                options=options,
                summary=summary,
                capabilities=capabilities,
                source=source,
                aliases=aliases,
            )
        )

    return component if kind in CAPABILITIES else plain


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _sentence(error: BaseException) -> str:
    first = str(error).strip().splitlines()
    text = first[0] if first else ""
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"
