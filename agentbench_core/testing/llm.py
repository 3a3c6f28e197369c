"""What every provider of a model must do."""

from __future__ import annotations

from agentbench_core.testing.llm_answers import AnswerChecks
from agentbench_core.testing.llm_faults import FaultChecks
from agentbench_core.testing.llm_life import LifeChecks
from agentbench_core.testing.llm_traffic import TrafficChecks


class LLMConformance(AnswerChecks, LifeChecks):
    """Checks for every provider, wherever its answers come from."""


class RemoteLLMConformance(TrafficChecks, FaultChecks, LLMConformance):
    """Checks for providers that ask a server, which may fail, on top of those for every provider."""
