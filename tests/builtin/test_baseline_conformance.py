"""The built-in agents pass the conformance checks for agents."""

from __future__ import annotations

from typing import ClassVar

from agentbench_core import Agent
from agentbench_core.builtin import plugin
from agentbench_core.builtin.options import BaselineOptions, NoOptions, ScriptedOptions
from agentbench_testing import AgentConformance, ModelAgentConformance


class TestBaseline(ModelAgentConformance):
    """One model, the tools and a loop."""

    @classmethod
    def make_agent(cls) -> Agent:
        return plugin.baseline(BaselineOptions())


class TestScripted(AgentConformance):
    """The upper control."""

    needs_oracle: ClassVar[bool] = True

    @classmethod
    def make_agent(cls) -> Agent:
        return plugin.scripted(ScriptedOptions())


class TestIdle(AgentConformance):
    """The lower control."""

    @classmethod
    def make_agent(cls) -> Agent:
        return plugin.idle(NoOptions())
