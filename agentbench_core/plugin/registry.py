"""Registered components, by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.errors import AgentBenchError, PluginError, UnknownNameError, did_you_mean
from agentbench_core.plugin.kinds import KINDS, REGISTRATIONS

ADVERSARY = "adversary"
"""The capability of agents that try to pass without solving the task."""

NEEDS_SANDBOX = "needs_sandbox"
"""The capability of agents that run a program in the sandbox."""

_COMES_WITH: Mapping[str, Mapping[str, Collection[str]]] = {
    "agentbench-bridge": {"agent": ["claude-code", "codex", "opencode", "command"], "command": ["agents"]},
    "agentbench-dask": {"executor": ["dask"]},
    "agentbench-docker": {"sandbox": ["docker"], "command": ["docker"]},
    "agentbench-integrity": {"scorer": ["tests"], "command": ["tasks attack"], "attack": ["adversaries"]},
    "agentbench-local": {"sandbox": ["local"]},
    "agentbench-mechanic": {"llm": ["mechanic"]},
    "agentbench-openrouter": {"llm": ["openrouter"], "command": ["openrouter"]},
    "agentbench-report": {"command": ["report"]},
    "agentbench-runs": {"command": ["runs du", "runs merge", "runs pack", "runs prune", "runs tag", "runs unpack"]},
    "agentbench-tasks": {
        "command": [
            *("init", "tasks mine", "tasks new", "tasks pin", "tasks refresh", "tasks strengthen", "validate-tasks")
        ]
    },
    "agentbench-subagents": {"agent": ["context_packer", "subagents"]},
    "agentbench-testing": {"command": ["plugins check", "plugins new"]},
    "agentbench-view": {"command": ["view"]},
    "agentbench-workers": {"executor": ["workers"], "command": ["executor", "worker"]},
}
"""The other distributions of this project, and some of their components, for hints about missing ones."""


def provided_by(kind: str, name: str) -> str:
    """A hint that names the distribution of this project with a missing component, or an empty string."""
    for distribution, registered in _COMES_WITH.items():
        if name in registered.get(kind, ()):
            # These names are not reserved in the public index yet, so messages do not suggest `pip install NAME`.
            weaker = ", or use the weaker --set scorer=plain" if (kind, name) == ("scorer", "tests") else ""
            return f"{kind} {name!r} is part of {distribution}; install it from the same source as the core{weaker}"
    return ""


@attrs.frozen(kw_only=True)
class Provenance:
    """The origin of a component."""

    plugin: str  #: name of the entry point
    distribution: str  #: name of its distribution
    version: str  #: version of the distribution


@attrs.frozen(kw_only=True)
class Component:
    """Something registered under a name."""

    kind: str  #: such as `agent`
    name: str  #: name by which users select it
    target: Any  #: a factory, the import path of a command or an attack, or a variant's settings
    options: type | None  #: class of its options; `None` for commands, attacks and variants
    summary: str  #: one line of text
    capabilities: frozenset[str]  #: words defined by the contract of the kind
    source: Provenance  #: the plugin that registered it
    aliases: frozenset[str] = frozenset()  #: alternative names

    @property
    def names(self) -> frozenset[str]:
        """Its name and its aliases."""
        return self.aliases | {self.name}

    def make(self, options: object) -> Any:
        """Create the component. Raises the factory's AgentBenchError, and PluginError for any other problem."""
        who = f"{self.kind} {self.name!r} of {self.source.distribution}"
        factory: Callable[[object], Any] = self.target
        try:
            made = factory(options)
            spec_name = getattr(getattr(made, "spec", None), "name", None) if self.kind == "tool" else None
        except AgentBenchError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(f"{who} cannot be created: {type(error).__name__}: {error}") from error
        method = KINDS[self.kind].method
        if not callable(getattr(made, method, None)):
            near = difflib.get_close_matches(method, dir(made), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise PluginError(
                f"{who} is {made!r}, which has no method {method!r}{hint}", remedy=f"Add the method {method!r}."
            )
        if spec_name not in (None, self.name):  # models would call it by a name that is not registered
            raise PluginError(f"{who} has the name {spec_name!r} in its spec: the names must match")
        return made

    def load(self) -> Any:
        """Import the object at the target of a command or an attack. Raises PluginError if this fails."""
        module, _, attribute = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as error:
            raise PluginError(
                f"{self.kind} {self.name!r} of {self.source.distribution} failed to load: "
                f"{type(error).__name__}: {error}"
            ) from error


class Registry:
    """Components by kind and name; passed as a value, never a global."""

    def __init__(self, components: Iterable[Component], unusable: Mapping[str, str]) -> None:
        """Take the components, and the reasons why plugins are not loaded, by plugin name."""
        order = list(REGISTRATIONS)
        self._components = sorted(components, key=lambda c: (order.index(c.kind), c.name, c.source.distribution))
        self._unusable = dict(sorted(unusable.items()))

    def all(self, kind: str | None = None) -> Sequence[Component]:
        """Every component, or every component of one kind, sorted by kind and name."""
        return [component for component in self._components if kind in (None, component.kind)]

    def names(self, kind: str) -> Sequence[str]:
        """The names of one kind, sorted and unique; without adversarial agents, which only attacks use."""
        return sorted({component.name for component in self.all(kind) if ADVERSARY not in component.capabilities})

    def find(self, kind: str, name: str) -> Component:
        """The component with that name.

        Raises:
            UnknownNameError: there is none; lists the closest name, all names, and plugins that are not loaded.
            PluginError: more than one plugin has registered it.
        """
        results = [component for component in self.all(kind) if name in component.names]
        if not results:
            raise self._unknown(kind, name)
        if len(results) > 1:
            owners = " and ".join(f"{c.source.distribution} (plugin {c.source.plugin!r})" for c in results)
            others = [c for c in results if c.source.distribution != "agentbench-core"]
            raise PluginError(
                f"{kind} {name!r} is registered by {owners}",
                remedy=f"Disable one of them: --no-plugin {others[-1].source.plugin}",
            )
        return results[0]

    def name_of(self, kind: str, name: str) -> str:
        """The name behind an alias; any other name, even an unknown or ambiguous one, is returned unchanged."""
        results = [component.name for component in self.all(kind) if name in component.names]
        return results[0] if len(results) == 1 else name

    def has(self, kind: str, name: str) -> bool:
        """Whether a component has that name or alias."""
        return any(name in component.names for component in self.all(kind))

    def can(self, kind: str, name: str, capability: str) -> bool:
        """Whether a component with that name or alias declares a capability."""
        return any(name in component.names and capability in component.capabilities for component in self.all(kind))

    def conflicts(self) -> Collection[tuple[str, str]]:
        """Every (kind, name) that more than one plugin has registered."""
        keys = [(component.kind, name) for component in self._components for name in component.names]
        return {key for key in keys if keys.count(key) > 1}

    def _unknown(self, kind: str, name: str) -> UnknownNameError:
        known = self.names(kind)
        nearest = did_you_mean(name, known)
        lines = [f"Available: {', '.join(known)}." if known else f"No installed plugin provides {kind} components."]
        lines += [f"Plugin {plugin!r} is not loaded: {reason}" for plugin, reason in self._unusable.items()]
        if ours := provided_by(kind, name):
            lines.append(f"{ours}.")
        elif not nearest and not self._unusable:
            lines.append("A plugin that is not installed may provide it. See: agentbench plugins list")
        return UnknownNameError(f"no {kind} {name!r}{nearest}", remedy="\n".join(lines))
