"""The programs of agents that are installed on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import AgentBenchError, InputError, load
from agentbench_core.harness import App

_NEEDS_SANDBOX = "needs_sandbox"
"""The capability of agents that are programs."""


@attrs.frozen(kw_only=True)
class Program:
    """The program of an agent, or of a variant of one."""

    agent: str  #: name of the agent or of the variant
    identity: Mapping[str, str]  #: its identity in a run, such as version and digest; empty if it cannot be used
    problem: str = ""  #: why it cannot be used, or empty
    remedy: str = ""  #: what to do about it, or empty


def programs_of(app: App) -> Sequence[Program]:
    """The programs of all registered agents and variants with their own options, sorted by name.

    Agents that require options from the user are left out.
    """
    found = []
    for name, agent, options in sorted(_agents(app), key=lambda each: each[0]):
        component = app.registry.find("agent", agent)
        assert component.options is not None, "agents must have options"
        try:
            made = component.make(load(options, component.options, where=f"options of agent {agent!r}"))
            found.append(Program(agent=name, identity=dict(made.identity)))
        except InputError:
            continue
        except AgentBenchError as error:
            found.append(Program(agent=name, identity={}, problem=error.message, remedy=error.remedy))
    return found


def _agents(app: App) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Agents that are programs, and variants of them: the name to show, the agent, and its options."""
    agents = {agent.name for agent in app.registry.all("agent") if _NEEDS_SANDBOX in agent.capabilities}
    yield from ((name, name, {}) for name in agents)
    for variant in app.registry.all("variant"):
        chosen = variant.target.get("agent")
        if isinstance(chosen, Mapping) and chosen.get("name") in agents:
            yield variant.name, chosen["name"], {key: value for key, value in chosen.items() if key != "name"}
