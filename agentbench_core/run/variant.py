"""A configured variant: every component resolved, its options validated, and its requirements checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, Obstacles, PluginError, UnavailableError
from agentbench_core.inputs.config import ModelSettings, Resolved, Settings
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.agent import Agent
from agentbench_core.plugin.kinds import KINDS
from agentbench_core.plugin.registry import NEEDS_SANDBOX, Component, Provenance, Registry
from agentbench_core.run.requirements import check_entrypoints, check_isolation, check_program_support
from agentbench_core.values.record import ModelInfo, Setting
from agentbench_core.values.task import digest

_ONE = sorted(name for name, kind in KINDS.items() if kind.setting == "one")
_NAMED_ONLY = {"replays", "offline"}
"""An llm with one of these capabilities is used only if the settings name it."""
_PATCH_TOKENS, _PROGRAM_TOKENS = 2048, 32_000
"""Output limits if the settings contain none: programs write whole files in one response, other agents patches."""
_MANY = [kind for kind in KINDS.values() if kind.setting == "many"]


@attrs.frozen(kw_only=True)
class ConfiguredComponent:
    """A component with validated options."""

    component: Component  #: the registered component
    options: Any  #: instance of its options class

    @property
    def name(self) -> str:
        """The registered name."""
        return self.component.name

    def can(self, capability: str) -> bool:
        """Whether it declares a capability."""
        return capability in self.component.capabilities

    def make(self) -> Any:
        """A new instance."""
        return self.component.make(self.options)

    @classmethod
    def own_agent(cls, name: str, agent: Agent, *capabilities: str) -> ConfiguredComponent:
        """An agent of the harness itself, which is not registered and cannot be selected."""
        source = Provenance(plugin="core", distribution="agentbench-core", version="")
        component = Component(
            kind="agent",
            name=name,
            target=lambda options: agent,
            options=None,
            summary="",
            capabilities=frozenset(capabilities),
            source=source,
        )
        return cls(component=component, options=None)

    def identity(self) -> dict[str, Any]:
        """Everything that identifies the component in a digest."""
        source = self.component.source
        return {"name": self.name, "options": dump(self.options), "from": f"{source.distribution} {source.version}"}


@attrs.frozen(kw_only=True)
class Variant:
    """One named configuration to compare."""

    name: str  #: name of the variant
    settings_with_origins: Mapping[str, Setting]  #: every setting by its dotted name
    settings: Settings  #: all settings
    agents: Mapping[str, ConfiguredComponent]
    """Agents by name: the variant's own, or one per task entrypoint; empty if tasks are just checked."""
    tools: tuple[ConfiguredComponent, ...]  #: tools for agents, sorted by name
    llm: ConfiguredComponent | None  #: `None` if no agent uses a model
    sandbox: ConfiguredComponent  #: the sandbox
    scorer: ConfiguredComponent  #: the scorer
    executor: ConfiguredComponent  #: where attempts run; not part of the variant's digest
    auditors: tuple[ConfiguredComponent, ...]  #: the auditors
    reporters: tuple[ConfiguredComponent, ...]  #: the reporters
    programs: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Identifiers of the programs of agents that run in the sandbox, by agent."""

    def agent_for(self, task: Task) -> ConfiguredComponent:
        """The agent that works on a task."""
        name = self.settings.agent.name or task.spec.agent.entrypoint
        return next(agent for agent in self.agents.values() if name in agent.component.names)

    def instantiate_all(self) -> None:
        """Instantiate agents, tools, scorer and auditors, so that a failure stops the run before it starts."""
        for ready in (*self.agents.values(), *self.tools, self.scorer, *self.auditors):
            ready.make()

    @property
    def agent_names(self) -> str:
        """The names of all agents, for display."""
        return ", ".join(sorted(self.agents))

    @property
    def plugins(self) -> Collection[str]:
        """Names of the plugins that can affect results."""
        used = [*self.agents.values(), *self.tools, self.sandbox, self.scorer, *self.auditors]
        used += [self.llm] if self.llm else []
        return {ready.component.source.plugin for ready in used}

    @property
    def forwards(self) -> bool:
        """Whether an agent is a program, whose own model requests are forwarded."""
        return any(agent.can(NEEDS_SANDBOX) for agent in self.agents.values())

    @property
    def digest(self) -> str:
        """Digest that identifies the variant: agents with options and versions, model, tools, limits."""
        return digest(
            {
                "agents": [agent.identity() for _, agent in sorted(self.agents.items())],
                "tools": [tool.identity() for tool in self.tools],
                "llm": self.llm.identity() if self.llm else None,
                "model": dump(self.settings.model) if self.llm else None,
                "limits": dump(self.settings.limits),
                **({"programs": dump(self.programs)} if self.programs else {}),
            }
        )

    @property
    def model(self) -> ModelInfo | None:
        """The model as written to records; the prompt version is added by the agent later."""
        return model_info(self.llm.name, self.settings.model, forwards=self.forwards) if self.llm else None


def model_info(provider: str, model: ModelSettings, *, forwards: bool) -> ModelInfo:
    """A model with the default output limit if none is set; ``forwards``: requests come from a program."""
    return ModelInfo(
        provider=provider,
        name=model.name,
        temperature=model.temperature,
        top_p=model.top_p,
        max_tokens=model.max_tokens or (_PROGRAM_TOKENS if forwards else _PATCH_TOKENS),
    )


def make_variant(
    name: str, resolved: Resolved, agents: Collection[str], registry: Registry, *, allow_unisolated: bool = False
) -> Variant:
    """Resolve and check everything that a variant uses, before anything runs. All problems are reported together.

    ``agents`` are the names of its agents; see :func:`agent_names`. Raises InputError for an unknown name, an invalid
    option or a missing model, and UnavailableError if no provider is installed, or the sandbox is not isolated.
    """
    obstacles = Obstacles()
    made: list[Variant] = []
    llms: list[ConfiguredComponent] = []
    with obstacles.gathered():
        made.append(variant_without_agents(name, resolved, registry))
    made_agents = _agents(resolved, agents, registry, obstacles)
    with_model = [agent for agent in made_agents.values() if agent.can("needs_llm")]
    if with_model:
        with obstacles.gathered():
            llms.append(chosen_llm(resolved, registry, f"agent {with_model[0].name!r}"))
    harmless = allow_unisolated or any(llm.can("offline") for llm in llms)
    sandboxes = [variant.sandbox for variant in made]
    for sandbox in sandboxes if with_model and not harmless else ():
        with obstacles.gathered():
            check_isolation(with_model[0].component, sandbox.component, registry)
    programs: dict[str, Mapping[str, str]] = {}
    for agent in (agent for agent in made_agents.values() if agent.can(NEEDS_SANDBOX)):
        for used in (*sandboxes, *llms):
            with obstacles.gathered():
                check_program_support(agent.component, used.component, registry)
        with obstacles.gathered():
            programs[agent.name] = dict(agent.make().identity)
    obstacles.refuse()
    return attrs.evolve(
        made[0],
        settings_with_origins=dict(sorted({**resolved.leaves, **default_options(resolved, registry)}.items())),
        agents=made_agents,
        llm=next(iter(llms), None),
        programs=programs,
    )


def _agents(
    resolved: Resolved, wanted: Collection[str], registry: Registry, obstacles: Obstacles
) -> Mapping[str, ConfiguredComponent]:
    """The agents of a variant that can be used; the problems of other agents are collected."""
    names = sorted(registry.name_of("agent", agent) for agent in wanted)
    agents = {}
    with obstacles.gathered():
        check_entrypoints(resolved.settings, names, registry)
        for agent in names:
            with obstacles.gathered():
                agents[agent] = configured(registry, resolved, "agent", agent)
    return agents


def agent_names(settings: Settings, tasks: Sequence[Task]) -> Collection[str]:
    """The name of the variant's agent, or the names of the tasks' agents."""
    return {settings.agent.name} if settings.agent.name else {task.spec.agent.entrypoint for task in tasks}


def variant_without_agents(name: str, resolved: Resolved, registry: Registry) -> Variant:
    """A variant without agents, for checking tasks. Raises InputError, listing all problems of its settings."""
    settings, obstacles = resolved.settings, Obstacles()
    for kind in _MANY:
        listed = getattr(settings, kind.plural)
        if len(set(listed)) < len(listed):
            obstacles.add(InputError(f"{kind.plural}: a name is listed twice: {', '.join(listed)}"))
    for kind in _MANY:  # options of unused components are allowed if they are valid
        for unused in getattr(settings, kind.name):
            with obstacles.gathered():
                configured(registry, resolved, kind.name, unused)
    made: dict[str, list[ConfiguredComponent]] = {kind.name: [] for kind in KINDS.values()}
    used = [("sandbox", settings.sandbox.name), ("scorer", settings.scorer.name), ("executor", settings.executor.name)]
    for wanted in (*used, *((kind.name, listed) for kind in _MANY for listed in getattr(settings, kind.plural))):
        with obstacles.gathered():
            made[wanted[0]].append(configured(registry, resolved, *wanted))
    obstacles.refuse()
    return Variant(
        name=name,
        settings_with_origins=resolved.leaves,
        settings=settings,
        agents={},
        tools=tuple(sorted(made["tool"], key=lambda tool: tool.name)),
        llm=None,
        sandbox=made["sandbox"][0],
        scorer=made["scorer"][0],
        executor=made["executor"][0],
        auditors=tuple(made["auditor"]),
        reporters=tuple(made["reporter"]),
    )


def default_options(resolved: Resolved, registry: Registry) -> Mapping[str, Setting]:
    """The defaults of options that no layer sets, for all named components. Raises InputError if options are invalid.

    An llm that is not installed is skipped; agents that need it are refused elsewhere.
    """
    leaves: dict[str, Setting] = {}
    for kind, section, name in named_components(resolved.settings):
        if kind == "llm" and not registry.has(kind, name):
            continue
        values = dump(configured(registry, resolved, kind, name).options)
        given = _options_set(resolved.settings, kind, name)
        leaves |= {f"{section}.{key}": Setting(value=values[key], origin="default") for key in set(values) - set(given)}
    return leaves


def wrong_components(resolved: Resolved, registry: Registry) -> Iterator[InputError | PluginError]:
    """Yield an error for each named component that is not installed or has invalid options."""
    for kind, _, name in named_components(resolved.settings):
        try:
            configured(registry, resolved, kind, name)
        except (InputError, PluginError) as error:
            yield error


def named_components(settings: Settings) -> Sequence[tuple[str, str, str]]:
    """Kind, section and name of each named component."""
    chosen = [(kind, name) for kind in _ONE if (name := getattr(settings, kind).name)]
    listed = [(kind.name, name) for kind in _MANY for name in getattr(settings, kind.plural)]
    return [(kind, _section(kind, name), name) for kind, name in (*chosen, *listed)]


def _section(kind: str, name: str) -> str:
    """The settings section with the options of a component."""
    return kind if kind in _ONE else f"{kind}.{name}"


def _options_set(settings: Settings, kind: str, name: str) -> Mapping[str, Any]:
    """The options that the settings contain for a component."""
    options: Mapping[str, Any] = (
        getattr(settings, kind).options if kind in _ONE else getattr(settings, kind).get(name, {})
    )
    return options


def configured(registry: Registry, resolved: Resolved, kind: str, name: str) -> ConfiguredComponent:
    """A component with the options that the settings contain. Raises InputError and PluginError."""
    component = registry.find(kind, name)
    assert component.options is not None, "components of these kinds must have options"
    options = _options_set(resolved.settings, kind, name)
    files = dict.fromkeys(resolved.leaves[f"{_section(kind, name)}.{key}"].origin for key in options)
    where = f"{', '.join(files)}: " if files else ""
    return ConfiguredComponent(
        component=component, options=load(options, component.options, where=f"{where}options of {kind} {name!r}")
    )


def chosen_llm(resolved: Resolved, registry: Registry, user: str) -> ConfiguredComponent:
    """The provider of the model that the settings select; ``user`` names the component that needs it, for messages.

    Raises InputError if no model, or an unknown or no provider, is selected; UnavailableError if none is installed.
    """
    settings = resolved.settings
    providers = sorted({c.name for c in registry.all("llm") if not c.capabilities & _NAMED_ONLY})
    if not providers and not settings.llm.name:
        raise UnavailableError(
            f"{user} requires a model, and no installed plugin provides one",
            remedy=f"Install a plugin that registers an llm; see: agentbench plugins list{_instead(registry)}",
        )
    if not settings.model.name:
        raise InputError(
            f"{user} requires a model",
            remedy=f"Pass --model NAME (as used by the provider){_instead(registry)}",
        )
    if not settings.llm.name and len(providers) > 1:
        raise InputError("several model providers are installed", remedy=f"Choose one: --llm {' | '.join(providers)}")
    return configured(registry, resolved, "llm", settings.llm.name or providers[0])


def _instead(registry: Registry) -> str:
    """A hint for trying an agent offline; empty if no offline llm is installed."""
    offline = [f"--llm {c.name}" for c in registry.all("llm") if "offline" in c.capabilities]
    return f"\nTo try it offline, without a model: {' or '.join(offline)}" if offline else ""
