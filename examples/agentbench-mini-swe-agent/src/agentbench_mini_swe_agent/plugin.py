"""Registers the agent. mini-swe-agent itself is imported when the agent is created."""

from __future__ import annotations

from agentbench_core import Agent, Register, hookimpl
from agentbench_mini_swe_agent.options import MiniSweAgentOptions

AGENTBENCH_API = 1


def mini_swe_agent(options: MiniSweAgentOptions) -> Agent:
    """Create the ``mini-swe-agent`` agent."""
    from agentbench_mini_swe_agent.importing import agent_class

    return agent_class()(options)


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The ``mini-swe-agent`` agent."""
    register(
        "mini-swe-agent",
        mini_swe_agent,
        MiniSweAgentOptions,
        summary="mini-swe-agent, unmodified: a model with a shell",
        capabilities=("needs_llm",),
    )
