"""What every agent must do."""

from __future__ import annotations

from typing import ClassVar

from agentbench_core.testing.agent_life import AgentLifeChecks
from agentbench_core.testing.agent_talk import AgentTalkChecks


class AgentConformance(AgentLifeChecks):
    """Checks for every agent, on a small program with one bug, with the harness's tools, in each of ``sandboxes``."""


class ModelAgentConformance(AgentTalkChecks, AgentConformance):
    """Checks for agents with the capability ``needs_llm``, on top of those for every agent."""

    needs_llm: ClassVar[bool] = True
