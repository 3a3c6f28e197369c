"""Load one plugin: import its module, check its declarations, and call its hooks."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from types import ModuleType
from typing import Any

import attrs
import pluggy

from agentbench_core.errors import PluginError, did_you_mean
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.kinds import COMMAND_GROUPS, KINDS, REGISTRATIONS
from agentbench_core.plugin.registry import Component, Provenance

_HOOKS = {registration.hook: name for name, registration in REGISTRATIONS.items()}

_MANY = 12
"""Maximum number of names on one line of a trace."""

Trace = Callable[[str], None]
"""Receives a line for each import and hook call."""


def untraced(line: str) -> None:
    """Drop every line of a trace."""


@attrs.frozen(kw_only=True)
class Loaded:
    """The registrations of a plugin, and notes about its minor problems: output while loading, deprecated hooks."""

    components: tuple[Component, ...]
    notes: tuple[str, ...]


def load_plugin(source: Provenance, entry_point: str, trace: Trace) -> Loaded:
    """Load one plugin. Raises whatever the plugin raises, and PluginError for invalid declarations."""
    _check_entry_point(entry_point)
    notes: list[str] = []
    who = f"{source.distribution}:{source.plugin}"
    trace(f"{who}  imports {entry_point}")
    began = time.perf_counter()
    with silenced(notes):
        module = import_entry_point(entry_point)
    trace(f"{who}  imported in {_milliseconds(began)}")
    _check_version(module, source)
    hooks = _hooks(module)
    if not hooks:
        return Loaded(components=(), notes=tuple(notes))
    manager = pluggy.PluginManager(hookspecs.PROJECT)  # one per plugin: errors of one do not affect the others
    manager.add_hookspecs(_namespace({hook: getattr(hookspecs, hook) for hook in hooks}))
    with warnings.catch_warnings(record=True) as warned:  # pluggy warns about deprecated hooks
        warnings.simplefilter("always")
        manager.register(_namespace(hooks), who)
    manager.check_pending()
    components = _call_hooks(manager, source, notes, trace)
    notes += [str(warning.message) for warning in warned]
    return Loaded(components=tuple(components), notes=tuple(notes))


def _call_hooks(manager: pluggy.PluginManager, source: Provenance, notes: list[str], trace: Trace) -> list[Component]:
    components: list[Component] = []
    for hook, kind in _HOOKS.items():
        caller = getattr(manager.hook, hook, None)
        if caller is None:
            continue
        began, before = time.perf_counter(), len(components)
        with silenced(notes):
            caller(register=_register(kind, source, components))
        names = [component.name for component in components[before:]]
        added = f"{len(names)} components" if len(names) > _MANY else ", ".join(names) or "nothing"
        trace(f"{source.distribution}:{source.plugin}  {hook} added {added} in {_milliseconds(began)}")
    return components


@contextlib.contextmanager
def silenced(notes: list[str], action: str = "loaded") -> Iterator[None]:
    """Capture a plugin's output, which would corrupt the output of a command, and note its first line."""
    message = io.StringIO()
    try:
        with contextlib.redirect_stdout(message), contextlib.redirect_stderr(message):
            yield
    finally:
        if text := message.getvalue().strip():
            notes.append(f"it prints when {action}: {text.splitlines()[0]!r}")


def _milliseconds(began: float) -> str:
    return f"{(time.perf_counter() - began) * 1000:.1f} ms"


def _check_version(module: object, source: Provenance) -> None:
    declared = getattr(module, "AGENTBENCH_API", hookspecs.API_VERSION)
    if isinstance(declared, bool) or not isinstance(declared, int):
        raise PluginError(f"AGENTBENCH_API must be an integer, for example {hookspecs.API_VERSION}, not {declared!r}")
    if declared > hookspecs.API_VERSION:
        raise PluginError(
            f"it requires version {declared} of the plugin API, but this core provides {hookspecs.API_VERSION}: "
            f"upgrade agentbench-core, or install an older {source.distribution}"
        )
    if declared < hookspecs.OLDEST_API:
        raise PluginError(
            f"it requires version {declared} of the plugin API, but this core supports "
            f"{hookspecs.OLDEST_API} and newer: upgrade {source.distribution}"
        )


def module_of(entry_point: str) -> str:
    """The module of an entry point: ``package.module`` in ``package.module:attribute [extra]``."""
    return re.split(r"[:\[]", entry_point)[0].strip()


def import_entry_point(entry_point: str) -> Any:
    """The object of an entry point. Raises whatever the import raises."""
    _, _, attributes = entry_point.partition("[")[0].partition(":")
    result: Any = importlib.import_module(module_of(entry_point))
    for attribute in filter(None, attributes.strip().split(".")):
        result = getattr(result, attribute)
    return result


def _check_entry_point(value: str) -> None:
    module = module_of(value)
    if not all(part.isidentifier() for part in module.split(".")):
        near = module.replace("-", "_")
        hint = f" (did you mean {near!r}?)" if near != module else ""
        raise PluginError(f"its entry point is not a module: {value!r}{hint}")


def _hooks(module: object) -> Mapping[str, object]:
    """The hooks of a plugin, by name.

    Raises PluginError for an unknown hook (naming the closest one), an unmarked hook, and a wrong parameter.
    """
    hooks: dict[str, object] = {}
    for name in dir(module):
        result: Any = getattr(module, name, None)
        marked = inspect.isroutine(result) and hasattr(result, f"{hookspecs.PROJECT}_impl")
        if name not in _HOOKS:
            if marked or name.startswith(f"{hookspecs.PROJECT}_register_"):
                raise PluginError(f"unknown hook {name!r}{did_you_mean(name, _HOOKS)}")
        elif not marked:
            raise PluginError(f"{name} is not marked with @hookimpl and would never be called")
        elif others := [parameter for parameter in inspect.signature(result).parameters if parameter != "register"]:
            raise PluginError(f"the parameter of {name} must be named 'register', not {others[0]!r}")
        else:
            hooks[name] = result
    return hooks


def _namespace(hooks: Mapping[str, object]) -> ModuleType:
    """A module with only these hooks: pluggy takes long to search all names of a plugin and of ``hookspecs``."""
    namespace = ModuleType(hookspecs.PROJECT)
    vars(namespace).update(hooks)
    return namespace


def _register(kind: str, source: Provenance, into: list[Component]) -> Callable[..., None]:
    taken: set[str] = set()

    def check_name(name: str) -> None:
        group, blank, rest = name.partition(" ")
        if kind == "command" and blank:
            if group not in COMMAND_GROUPS:
                hint = did_you_mean(group, COMMAND_GROUPS) or f": {', '.join(COMMAND_GROUPS)}"
                raise PluginError(f"command {name!r}: unknown command group {group!r}{hint}")
            name = rest
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
            raise PluginError(
                f"{name!r} is not a valid name for {_a(kind)}: use lowercase letters, digits, '_' and '-'"
            )

    def component(
        name: str,
        factory: Callable[..., Any],
        options: type,
        *,
        summary: str,
        capabilities: Collection[str] = (),
        aliases: Collection[str] = (),
    ) -> None:
        for what, words in (("capabilities", capabilities), ("aliases", aliases)):
            if isinstance(words, str):
                raise PluginError(f"the {what} of {kind} {name!r} must be a list, not a string: {words!r}")
        for alias in (name, *aliases):
            check_name(alias)
        if not attrs.has(options):
            raise PluginError(f"the options of {kind} {name!r} must be an attrs class, not {options!r}")
        for field in attrs.fields(options):
            if not field.metadata.get("help"):
                raise PluginError(
                    f"option {field.name!r} of {kind} {name!r} has no help text: use option(..., help=...)"
                )
        for word in capabilities:
            if word not in KINDS[kind].capabilities:
                known = ", ".join(sorted(KINDS[kind].capabilities)) or "none"
                raise PluginError(f"{kind} {name!r} declares the unknown capability {word!r}; known: {known}")
        add(name, factory, options, summary, frozenset(capabilities), frozenset(aliases))

    def plain(name: str, target: Any, *, summary: str) -> None:
        check_name(name)
        form = REGISTRATIONS[kind].target
        if form and not (isinstance(target, str) and ":" in target):
            raise PluginError(f"the target of {kind} {name!r} must have the form {form!r}, not {target!r}")
        if kind == "variant" and not isinstance(target, Mapping):
            raise PluginError(f"the settings of variant {name!r} must be a mapping, not {target!r}")
        add(name, target, None, summary, frozenset(), frozenset())

    def add(
        name: str,
        target: Any,
        options: type | None,
        summary: str,
        capabilities: frozenset[str],
        aliases: frozenset[str],
    ) -> None:
        if not isinstance(summary, str):
            raise PluginError(f"the summary of {kind} {name!r} must be a string, not {summary!r}")
        if not taken.isdisjoint({name, *aliases}):
            raise PluginError(f"{kind} {name!r} is registered twice")
        taken.update({name, *aliases})
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

    return component if kind in KINDS else plain


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
