"""The requirements of agents on the sandbox and the model provider, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.inputs.config import Settings
from agentbench_core.plugin.registry import Component, Registry


def check_entrypoints(settings: Settings, names: Sequence[str], registry: Registry) -> None:
    """Raise InputError if no agent was selected and an agent named in a task is not installed."""
    missing = [name for name in names if not registry.has("agent", name)]
    if not settings.agent.name and missing:
        raise InputError(
            f"no agent was specified, and the tasks' entrypoint {missing[0]!r} is not installed",
            remedy=f"Pass one: --agent {' | '.join(registry.names('agent'))}, or --variant NAME",
        )


def check_isolation(agent: Component, sandbox: Component, registry: Registry) -> None:
    """Raise UnavailableError if the sandbox of an agent that uses a model is not isolated."""
    if "isolated" in sandbox.capabilities:
        return
    isolating = [c.name for c in registry.all("sandbox") if "isolated" in c.capabilities]
    choice = (
        " or ".join(f"--sandbox {name}" for name in isolating)
        or "a plugin with an isolated sandbox (none is installed)"
    )
    raise UnavailableError(
        f"refusing to run agent {agent.name!r}, which uses a model, in the {sandbox.name!r} sandbox, which is not "
        "isolated",
        remedy=f"Use {choice}, or pass --allow-unisolated if this machine is disposable.",
    )


_FOR_PROGRAMS = {
    "sandbox": ("programs", "cannot run agents that are programs"),
    "llm": ("forwards", "cannot forward requests from the agent's own client"),
}
"""The capability that an agent with ``needs_sandbox`` needs, by kind, and the limitation without it."""


def check_program_support(agent: Component, used: Component, registry: Registry) -> None:
    """Raise UnavailableError if a sandbox cannot run programs, or a provider cannot forward their requests."""
    capability, problem = _FOR_PROGRAMS[used.kind]
    if capability not in used.capabilities:
        able = [f"--{used.kind} {c.name}" for c in registry.all(used.kind) if capability in c.capabilities]
        raise UnavailableError(
            f"agent {agent.name!r} cannot be used with {used.kind} {used.name!r}, which {problem}",
            remedy=f"Use {' or '.join(able) or f'a plugin whose {used.kind} has the `{capability}` capability'}.",
        )
