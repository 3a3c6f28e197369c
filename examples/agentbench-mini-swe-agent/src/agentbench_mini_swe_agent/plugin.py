"""What this distribution adds to AgentBench; mini-swe-agent is imported when its agent is made."""

from __future__ import annotations

from agentbench_core import Agent, Register, hookimpl
from agentbench_mini_swe_agent.options import MiniSweAgentOptions

AGENTBENCH_API = 1


def mini_swe_agent(options: MiniSweAgentOptions) -> Agent:
    """An agent for one attempt."""
    from agentbench_mini_swe_agent.importing import agent_class

    return agent_class()(options)


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """Agents that work with a model."""
    register(
        "mini-swe-agent",
        mini_swe_agent,
        MiniSweAgentOptions,
        summary="mini-swe-agent as it is: a model with a shell",
        capabilities=("needs_llm",),
    )
