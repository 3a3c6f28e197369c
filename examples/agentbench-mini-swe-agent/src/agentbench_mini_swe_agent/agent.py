"""The agent: mini-swe-agent's own loop between two adapters. See :mod:`.importing` for how this is imported."""

from __future__ import annotations

import attrs
from minisweagent.agents.default import DefaultAgent

from agentbench_core import AgentResult, AttemptContext
from agentbench_mini_swe_agent.configuration import Configuration
from agentbench_mini_swe_agent.environment import SandboxEnvironment
from agentbench_mini_swe_agent.model import AttemptModel
from agentbench_mini_swe_agent.options import MiniSweAgentOptions

_OFF = {"step_limit": 0, "cost_limit": 0.0, "wall_time_limit_seconds": 0, "output_path": None}
"""The variant's limits count, and AgentBench keeps the evidence."""
_MEANINGS = {
    "Refusal": "the model refuses",
    "ContextWindowExceeded": "the conversation no longer fits into the model",
    "RepeatedFormatError": "the model calls no command that can be run, again and again",
}


@attrs.frozen
class MiniSweAgent:
    """mini-swe-agent's ``DefaultAgent``, with a sandbox and a model of AgentBench."""

    options: MiniSweAgentOptions
    configuration: Configuration = attrs.field(init=False)

    @configuration.default
    def _read(self) -> Configuration:
        return Configuration.read(self.options.config)

    def solve(self, context: AttemptContext) -> AgentResult:
        """Run it on what the task says. What ends an attempt comes out as it went in."""
        configuration = self.configuration
        context.report_prompt_version(configuration.version)
        if not any(tool.name == "run" for tool in context.tools.specs):
            message = "the variant does not offer the tool `run`, by which commands reach the sandbox"
            return AgentResult(ended="tool_error", message=message, prompt_version=configuration.version)
        environment = SandboxEnvironment(context.tools, configuration.env, self.options.timeout_sec)
        model = AttemptModel(context, configuration.model)
        mini = DefaultAgent(model, environment, **{**configuration.agent, **_OFF})
        ended = mini.run(context.instruction)
        status = ended.get("exit_status", "")
        return AgentResult(
            ended="completed" if status == "Submitted" else "gave_up",
            message=ended.get("submission") or _MEANINGS.get(status, status),
            prompt_version=configuration.version,
        )
