"""Adversarial agents pass the conformance suite; one script stands for all."""

from __future__ import annotations

from agentbench_core import Agent
from agentbench_integrity.adversaries import endings
from agentbench_integrity.adversaries.agent import ScriptedAdversary
from agentbench_testing import AdversaryConformance, AgentConformance

SCRIPTS = {script.name: script for script in endings.SCRIPTS}


class TestExitAtImport(AdversaryConformance, AgentConformance):
    """The script as an agent and as an adversary."""

    @classmethod
    def make_agent(cls) -> Agent:
        return ScriptedAdversary(SCRIPTS["c08-exit-at-import"])
