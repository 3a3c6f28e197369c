"""The agent: mini-swe-agent's own loop with two adapters. :mod:`.importing` imports this module."""

from __future__ import annotations

import attrs
from minisweagent.agents.default import DefaultAgent

from agentbench_core import AgentResult, AttemptContext
from agentbench_mini_swe_agent.configuration import Configuration
from agentbench_mini_swe_agent.environment import SandboxEnvironment
from agentbench_mini_swe_agent.model import AttemptModel
from agentbench_mini_swe_agent.options import MiniSweAgentOptions

_OFF = {"step_limit": 0, "cost_limit": 0.0, "wall_time_limit_seconds": 0, "output_path": None}
"""Settings that are switched off, since AgentBench enforces the variant's limits and records the evidence."""
_MESSAGES = {
    "Refusal": "the model refused",
    "ContextWindowExceeded": "the conversation exceeds the model's context window",
    "RepeatedFormatError": "the model repeatedly sent no valid command",
}


@attrs.frozen
class MiniSweAgent:
    """mini-swe-agent's ``DefaultAgent``, with AgentBench's sandbox and model."""

    options: MiniSweAgentOptions
    configuration: Configuration = attrs.field(init=False)

    @configuration.default
    def _read(self) -> Configuration:
        return Configuration.read(self.options.config)

    def solve(self, context: AttemptContext) -> AgentResult:
        """Run mini-swe-agent with the task's instruction. Errors that end the attempt propagate unchanged."""
        configuration = self.configuration
        context.report_prompt_version(configuration.version)
        if not any(tool.name == "run" for tool in context.tools.specs):
            message = "the variant does not offer the `run` tool, which is required to run commands"
            return AgentResult(ended="tool_error", message=message, prompt_version=configuration.version)
        environment = SandboxEnvironment(context.tools, configuration.env, self.options.timeout_sec)
        model = AttemptModel(context, configuration.model)
        mini = DefaultAgent(model, environment, **{**configuration.agent, **_OFF})
        result = mini.run(context.instruction)
        status = result.get("exit_status", "")
        return AgentResult(
            ended="completed" if status == "Submitted" else "gave_up",
            message=result.get("submission") or _MESSAGES.get(status, status),
            prompt_version=configuration.version,
        )
