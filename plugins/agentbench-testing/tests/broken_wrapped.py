"""An agent that wraps a program as it must; and others that differ from it in one respect each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from agentbench_core import Agent, AgentResult, AttemptContext, AttemptStop, ToolCall, ToolResult
from agentbench_testing import WrappedAgentConformance


class CarefulWrapper:
    """Runs its program by the tool ``run``."""

    def __init__(self, program: str) -> None:
        self.program = program

    def solve(self, context: AttemptContext) -> AgentResult:
        result = self.run(context)
        return AgentResult(ended="completed" if result.fields.get("exit_code") == 0 else "gave_up")

    def run(self, context: AttemptContext) -> ToolResult:
        return context.tools.call(ToolCall(tool="run", arguments={"command": self.program}))


class DoesNothing(CarefulWrapper):
    """It says that it is done, and starts nothing."""

    def solve(self, context: AttemptContext) -> AgentResult:
        return AgentResult()


class OverlooksExitCodes(CarefulWrapper):
    """Whatever the program ends with is a success."""

    def solve(self, context: AttemptContext) -> AgentResult:
        self.run(context)
        return AgentResult()


class IsNotInterrupted(CarefulWrapper):
    """An interrupt is the program's end, and nothing else."""

    def solve(self, context: AttemptContext) -> AgentResult:
        try:
            return super().solve(context)
        except AttemptStop:
            return AgentResult(ended="gave_up")


class Prints(CarefulWrapper):
    """What the program says goes to the terminal."""

    def run(self, context: AttemptContext) -> ToolResult:
        result = super().run(context)
        print(str(result.fields.get("stdout"))[:100])
        return result


class WorksOnce(CarefulWrapper):
    """Its second attempt finds that the work is done."""

    begun: ClassVar[list[object]] = []

    def solve(self, context: AttemptContext) -> AgentResult:
        self.begun.append(context)
        return super().solve(context) if len(self.begun) == 1 else AgentResult()


def on(agent_type: type[CarefulWrapper]) -> type[WrappedAgentConformance]:
    class OnDouble(WrappedAgentConformance):
        @classmethod
        def wrapping(cls, program: str) -> Agent:
            return agent_type(program)

    return OnDouble


DOUBLES: Mapping[str, type[CarefulWrapper]] = {
    "test_the_program_does_the_work": DoesNothing,
    "test_a_program_that_fails": OverlooksExitCodes,
    "test_a_program_that_is_interrupted": IsNotInterrupted,
    "test_a_program_that_prints_very_much": Prints,
    "test_two_programs_at_once": WorksOnce,
}
