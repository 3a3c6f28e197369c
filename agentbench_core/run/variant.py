"""A variant made ready: every component found, its options checked, and everything it needs in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.inputs.config import Resolved, Settings
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Component, Registry
from agentbench_core.values.record import ModelInfo, Setting
from agentbench_core.values.task import digest


@attrs.frozen(kw_only=True)
class Ready:
    """A component with its options, checked."""

    component: Component
    options: Any

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self.component.name

    def can(self, capability: str) -> bool:
        """Whether it declares a capability."""
        return capability in self.component.capabilities

    def make(self) -> Any:
        """The component itself."""
        return self.component.make(self.options)

    def identity(self) -> dict[str, Any]:
        """What a digest needs to know of it."""
        source = self.component.source
        return {"name": self.name, "options": dump(self.options), "from": f"{source.distribution} {source.version}"}


@attrs.frozen(kw_only=True)
class Variant:
    """One named configuration to compare."""

    name: str
    leaves: Mapping[str, Setting]
    settings: Settings
    agents: Mapping[str, Ready]
    """By name: the variant's own, or one per entrypoint of the tasks."""
    tools: tuple[Ready, ...]
    llm: Ready | None
    sandbox: Ready
    scorer: Ready
    reporters: tuple[Ready, ...]

    def agent_for(self, task: Task) -> Ready:
        """The agent that works on a task."""
        return self.agents[self.settings.agent.name or task.spec.agent.entrypoint]

    @property
    def agent_names(self) -> str:
        """For people: the agent, or all of them."""
        return ", ".join(sorted(self.agents))

    @property
    def digest(self) -> str:
        """Names what is compared: agents with options and versions, model, tools, limits."""
        return digest(
            {
                "agents": [agent.identity() for _, agent in sorted(self.agents.items())],
                "tools": [tool.identity() for tool in self.tools],
                "llm": self.llm.identity() if self.llm else None,
                "model": dump(self.settings.model) if self.llm else None,
                "limits": dump(self.settings.limits),
            }
        )

    @property
    def model(self) -> ModelInfo | None:
        """The model as records name it; its prompt version comes from the agent, after the fact."""
        if self.llm is None:
            return None
        model = self.settings.model
        return ModelInfo(
            provider=self.llm.name,
            name=model.name,
            temperature=model.temperature,
            top_p=model.top_p,
            max_tokens=model.max_tokens,
        )


def make_ready(
    name: str, resolved: Resolved, tasks: Sequence[Task], registry: Registry, *, allow_unisolated: bool = False
) -> Variant:
    """Find and check everything that a variant names, before anything runs.

    Raises:
        InputError: an unknown name, a wrong option, a missing model.
        UnavailableError: an agent that a model steers, on a sandbox that does not isolate.
    """
    settings = resolved.settings
    names = [settings.agent.name] if settings.agent.name else sorted({t.spec.agent.entrypoint for t in tasks})
    agents = {agent: _ready(registry, "agent", agent, settings.agent.options) for agent in names}
    sandbox = _ready(registry, "sandbox", settings.sandbox.name, settings.sandbox.options)
    steered = [agent for agent in agents.values() if agent.can("needs_llm")]
    if steered and not sandbox.can("isolated") and not allow_unisolated:
        raise _unisolated(steered[0], sandbox, registry)
    _check_keys("tool", settings.tool, settings.tools)
    _check_keys("reporter", settings.reporter, settings.reporters)
    return Variant(
        name=name,
        leaves=resolved.leaves,
        settings=settings,
        agents=agents,
        tools=tuple(_ready(registry, "tool", tool, settings.tool.get(tool, {})) for tool in sorted(settings.tools)),
        llm=_llm(settings, registry, steered[0]) if steered else None,
        sandbox=sandbox,
        scorer=_ready(registry, "scorer", settings.scorer.name, settings.scorer.options),
        reporters=tuple(_ready(registry, "reporter", r, settings.reporter.get(r, {})) for r in settings.reporters),
    )


def _ready(registry: Registry, kind: str, name: str, options: Mapping[str, Any]) -> Ready:
    component = registry.find(kind, name)
    assert component.options is not None, "components of the six kinds have options"
    return Ready(component=component, options=load(options, component.options, where=f"options of {kind} {name!r}"))


def _llm(settings: Settings, registry: Registry, agent: Ready) -> Ready:
    providers = registry.names("llm")
    if not providers:
        raise UnavailableError(
            f"agent {agent.name!r} needs a model, and no plugin provides one",
            remedy="Install a provider, for instance: pip install agentbench-openrouter",
        )
    if not settings.model.name:
        raise InputError(
            f"agent {agent.name!r} needs a model", remedy="Name it: --model NAME (as its provider calls it)"
        )
    if not settings.llm.name and len(providers) > 1:
        raise InputError("several plugins provide models", remedy=f"Choose one: --llm {' | '.join(providers)}")
    return _ready(registry, "llm", settings.llm.name or providers[0], settings.llm.options)


def _unisolated(agent: Ready, sandbox: Ready, registry: Registry) -> UnavailableError:
    isolating = [c.name for c in registry.all("sandbox") if "isolated" in c.capabilities]
    choice = " or ".join(f"--sandbox {name}" for name in isolating) or "a sandbox plugin, such as agentbench-docker"
    return UnavailableError(
        f"agent {agent.name!r} does what a model says, and sandbox {sandbox.name!r} does not hold it in",
        remedy=f"Use {choice}; or, where nothing can be lost, --allow-unisolated.",
    )


def _check_keys(section: str, given: Mapping[str, Any], chosen: Sequence[str]) -> None:
    for name in given:
        if name not in chosen:
            raise InputError(f"{section}.{name}: options for a {section} that is not in use: {', '.join(chosen)}")
