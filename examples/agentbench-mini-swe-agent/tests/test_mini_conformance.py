"""The conformance kit, on an agent whose loop nobody here wrote."""

from __future__ import annotations

from agentbench_core import Agent, Request, ToolCall
from agentbench_mini_swe_agent.options import MiniSweAgentOptions
from agentbench_mini_swe_agent.plugin import mini_swe_agent
from agentbench_testing import Answer, ModelAgentConformance, calls

REPAIR = "sed -i 's/left - right/left + right/' adding.py"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def types(command: str) -> Answer:
    return calls(ToolCall(tool="bash", arguments={"command": command}), text="I go on.")


class TestMiniSweAgent(ModelAgentConformance):
    @classmethod
    def make_agent(cls) -> Agent:
        return mini_swe_agent(MiniSweAgentOptions())

    @classmethod
    def fixing(cls, request: Request) -> Answer:
        """By shell commands: first the repair, then the one that ends it."""
        typed = [call.arguments.get("command") for message in request.messages for call in message.tool_calls]
        return types(SUBMIT if REPAIR in typed else REPAIR)

    @classmethod
    def flooding(cls, request: Request) -> Answer:
        return types("seq 1 4000")
