"""What agents require of the sandbox and of the model provider, checked before anything runs."""

from __future__ import annotations

from agentbench_core.errors import UnavailableError
from agentbench_core.plugin.registry import Component, Registry


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
        f"refusing to run agent {agent.name!r}, which uses a model, in sandbox {sandbox.name!r}, which is not isolated",
        remedy=f"Use {choice}, or pass --allow-unisolated if this machine is disposable.",
    )


def check_program_support(agent: Component, sandbox: Component, llm: Component | None, registry: Registry) -> None:
    """Raise UnavailableError if the sandbox cannot run programs, or the provider cannot forward their requests."""
    needed = [("sandbox", sandbox, "programs", "cannot run agents that are programs")]
    if llm is not None:
        needed.append(("llm", llm, "forwards", "cannot forward requests of the agent's own client"))
    for kind, component, capability, problem in needed:
        if capability not in component.capabilities:
            able = [f"--{kind} {c.name}" for c in registry.all(kind) if capability in c.capabilities]
            raise UnavailableError(
                f"agent {agent.name!r} cannot be used with {kind} {component.name!r}, which {problem}",
                remedy=f"Use {' or '.join(able) or f'a plugin whose {kind} has the capability {capability}'}.",
            )
