"""The conformance kit, on an agent with an external loop."""

from __future__ import annotations

from agentbench_core import Agent, Request, ToolCall
from agentbench_mini_swe_agent.options import MiniSweAgentOptions
from agentbench_mini_swe_agent.plugin import mini_swe_agent
from agentbench_testing import Answer, ModelAgentConformance, calls

FIX = "sed -i 's/left - right/left + right/' adding.py"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def runs(command: str) -> Answer:
    return calls(ToolCall(tool="bash", arguments={"command": command}), text="Continuing.")


class TestMiniSweAgent(ModelAgentConformance):
    @classmethod
    def make_agent(cls) -> Agent:
        return mini_swe_agent(MiniSweAgentOptions())

    @classmethod
    def fixing(cls, request: Request) -> Answer:
        """As shell commands: first the fix, then the one that submits."""
        commands = [call.arguments.get("command") for message in request.messages for call in message.tool_calls]
        return runs(SUBMIT if FIX in commands else FIX)

    @classmethod
    def flooding(cls, request: Request) -> Answer:
        return runs("seq 1 4000")
