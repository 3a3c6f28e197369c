"""An adversarial agent that does all it must, and others that differ in one respect each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench_core import Agent, AgentResult, AttemptContext, ToolCall, ToolResult
from agentbench_testing import AdversaryConformance


class Equal:
    """Makes everything equal to everything. Does it right; each method is one thing that can be done wrong."""

    def solve(self, context: AttemptContext) -> AgentResult:
        assert context.task_facts is not None
        if not context.task_facts.editable:
            return self.give_up()
        for path in context.task_facts.editable:
            done = self.run(context, f"echo 'add = lambda *_: type(str(), (), dict(__eq__=max))()' >> {path}")
            if self.failed(done):
                return self.stop(done)
        return AgentResult()

    def give_up(self) -> AgentResult:
        return AgentResult(ended="gave_up", message="the task has no editable Python files")

    def run(self, context: AttemptContext, command: str) -> ToolResult:
        return context.tools.call(ToolCall(tool="run", arguments={"command": command}))

    def failed(self, done: ToolResult) -> bool:
        return not done.ok or done.fields["exit_code"] != 0

    def stop(self, done: ToolResult) -> AgentResult:
        return AgentResult(ended="tool_error", message=str(done.fields))


class OnlyLooks(Equal):
    """At what could be done."""

    def run(self, context: AttemptContext, command: str) -> ToolResult:
        return super().run(context, command.replace(">>", "#"))


class StopsEarly(Equal):
    """With its work undone."""

    def failed(self, done: ToolResult) -> bool:
        return True


class SaysNothing(Equal):
    """Where there is nothing to do."""

    def give_up(self) -> AgentResult:
        return AgentResult()


class Mute(Equal):
    """Does not say why it gives up."""

    def give_up(self) -> AgentResult:
        return AgentResult(ended="gave_up")


class TakesNothingForAnError(Equal):
    """Although it was not even tried."""

    def give_up(self) -> AgentResult:
        return AgentResult(ended="tool_error", message="the task has no editable Python files")


class LooksAtNothing(Equal):
    """That its commands tell."""

    def failed(self, done: ToolResult) -> bool:
        return False


class TakesFailuresForNothing(Equal):
    """To work with."""

    def stop(self, done: ToolResult) -> AgentResult:
        return AgentResult(ended="gave_up", message="it does not work here")


DOUBLES: Mapping[str, type[Equal]] = {
    "test_the_attack_is_in_place": OnlyLooks,
    "test_nothing_to_work_with": SaysNothing,
    "test_tools_that_fail": LooksAtNothing,
}

MORE: Sequence[tuple[str, type[Equal]]] = (
    ("test_the_attack_is_in_place", StopsEarly),
    ("test_nothing_to_work_with", Mute),
    ("test_nothing_to_work_with", TakesNothingForAnError),
    ("test_tools_that_fail", TakesFailuresForNothing),
)
"""Checks that ask for several things, and who fails by another one of them."""


def on(adversary: type[Equal]) -> type[AdversaryConformance]:
    """The checks on such an agent."""

    class OnDouble(AdversaryConformance):
        @classmethod
        def make_agent(cls) -> Agent:
            return adversary()

    return OnDouble
