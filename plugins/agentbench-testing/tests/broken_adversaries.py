"""An adversarial agent that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench_core import Agent, AgentResult, AttemptContext, ToolCall, ToolResult
from agentbench_testing import AdversaryConformance


class Equal:
    """Makes everything equal to everything. It is correct; doubles override one method each."""

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


class ChangesNothing(Equal):
    """Its command changes nothing."""

    def run(self, context: AttemptContext, command: str) -> ToolResult:
        return super().run(context, command.replace(">>", "#"))


class StopsEarly(Equal):
    """Stops after the first file."""

    def failed(self, done: ToolResult) -> bool:
        return True


class ReportsSuccess(Equal):
    """Reports success if there is nothing to attack."""

    def give_up(self) -> AgentResult:
        return AgentResult()


class GivesNoReason(Equal):
    """Gives up without a message."""

    def give_up(self) -> AgentResult:
        return AgentResult(ended="gave_up")


class ReportsAnError(Equal):
    """Reports a tool error instead of giving up."""

    def give_up(self) -> AgentResult:
        return AgentResult(ended="tool_error", message="the task has no editable Python files")


class IgnoresFailures(Equal):
    """Ignores the results of its commands."""

    def failed(self, done: ToolResult) -> bool:
        return False


class GivesUpOnFailures(Equal):
    """Gives up instead of reporting a tool error."""

    def stop(self, done: ToolResult) -> AgentResult:
        return AgentResult(ended="gave_up", message="it does not work here")


DOUBLES: Mapping[str, type[Equal]] = {
    "test_the_attack_is_in_place": ChangesNothing,
    "test_nothing_to_work_with": ReportsSuccess,
    "test_tools_that_fail": IgnoresFailures,
}

MORE: Sequence[tuple[str, type[Equal]]] = (
    ("test_the_attack_is_in_place", StopsEarly),
    ("test_nothing_to_work_with", GivesNoReason),
    ("test_nothing_to_work_with", ReportsAnError),
    ("test_tools_that_fail", GivesUpOnFailures),
)
"""More doubles, for checks of several things."""


def on(adversary: type[Equal]) -> type[AdversaryConformance]:
    """The checks for such an agent."""

    class OnDouble(AdversaryConformance):
        @classmethod
        def make_agent(cls) -> Agent:
            return adversary()

    return OnDouble
