"""An agent that wraps a program and passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from agentbench_core import Agent, AgentResult, AttemptContext, AttemptStop, ToolCall, ToolResult
from agentbench_testing import WrappedAgentConformance


class CarefulWrapper:
    """Runs its program with the tool ``run``."""

    def __init__(self, program: str) -> None:
        self.program = program

    def solve(self, context: AttemptContext) -> AgentResult:
        result = self.run(context)
        return AgentResult(ended="completed" if result.fields.get("exit_code") == 0 else "gave_up")

    def run(self, context: AttemptContext) -> ToolResult:
        return context.tools.call(ToolCall(tool="run", arguments={"command": self.program}))


class DoesNothing(CarefulWrapper):
    """Reports success without starting the program."""

    def solve(self, context: AttemptContext) -> AgentResult:
        return AgentResult()


class OverlooksExitCodes(CarefulWrapper):
    """Reports success for any exit code."""

    def solve(self, context: AttemptContext) -> AgentResult:
        self.run(context)
        return AgentResult()


class IsNotInterrupted(CarefulWrapper):
    """Reports an interrupt as the program's end."""

    def solve(self, context: AttemptContext) -> AgentResult:
        try:
            return super().solve(context)
        except AttemptStop:
            return AgentResult(ended="gave_up")


class Prints(CarefulWrapper):
    """Prints the program's output."""

    def run(self, context: AttemptContext) -> ToolResult:
        result = super().run(context)
        print(str(result.fields.get("stdout"))[:100])
        return result


class WorksOnce(CarefulWrapper):
    """Only runs the program in the first attempt."""

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
