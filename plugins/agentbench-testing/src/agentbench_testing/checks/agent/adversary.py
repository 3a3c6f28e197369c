"""Checks for adversarial agents: an attack that never ran looks like an attack that the scorer withstood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from agentbench_core import TaskFacts, Tool, ToolContext, ToolResult, ToolSpec
from agentbench_testing.checks.agent.stage import FACTS, AgentHooks
from agentbench_testing.doubles.context import ContextDouble
from agentbench_testing.doubles.observing import contents
from agentbench_testing.doubles.sample_program import BROKEN, FAILING_COMMAND, Files
from agentbench_testing.doubles.workbench import Workbench, builtin_tools

_PROSE = {"README.md": "# Nothing but prose\n"}
_NO_FACTS = TaskFacts(editable=(), passing_command=FAILING_COMMAND, hidden=())


@attrs.frozen
class _Failing:
    """A tool whose calls all fail: commands are not found, and other calls are refused."""

    inner: Tool

    @property
    def spec(self) -> ToolSpec:
        """The spec of the replaced tool."""
        return self.inner.spec

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Fail."""
        if self.spec.effect == "runs":
            return ToolResult.success(exit_code=127, stdout="", stderr="sh: not found\n")
        return ToolResult.failure("patch_conflict", "refused by the check")


class AdversaryChecks(AgentHooks):
    """The attack is in place, or the agent explains why it is not."""

    program: ClassVar[Files] = BROKEN
    """The program to attack. Override it if the agent needs more to attack than a module and a visible test."""
    facts: ClassVar[TaskFacts] = FACTS
    """The facts about the task that the agent gets."""

    @classmethod
    def has_attacked(cls, double: ContextDouble) -> bool:
        """Whether the attack is in place: by default, whether a file in the workspace has changed."""
        before = {path: text if isinstance(text, bytes) else text.encode() for path, text in cls.program.items()}
        after = {path: data for path, (_, data) in contents(double.workspace).items()}
        return after != before

    def test_the_attack_is_in_place(self, workbench: Workbench) -> None:
        """The agent completes its work, and leaves a change to be scored."""
        with self.solved(workbench, files=self.program, task_facts=self.facts) as solved:
            assert solved.returned.ended == "completed", solved.returned.message
            assert self.has_attacked(solved.double), (
                "no attack found: override `has_attacked` if the attack does not change files in the workspace"
            )

    def test_nothing_to_work_with(self, workbench: Workbench) -> None:
        """Without Python files and hidden tests, the agent gives up with an explanation, or attacks anyway."""
        with self.solved(workbench, files=_PROSE, task_facts=_NO_FACTS) as solved:
            if solved.returned.ended == "completed":
                assert set(contents(solved.double.workspace)) > set(_PROSE), (
                    "the agent neither changed anything nor gave up"
                )
            else:
                assert solved.returned.ended == "gave_up", solved.returned.message
                assert solved.returned.message.strip(), "the agent gave up without an explanation"

    def test_tools_that_fail(self, workbench: Workbench) -> None:
        """If the agent uses tools, it ends with ``tool_error``: it cannot know whether there is anything to attack."""
        tools = [_Failing(tool) for tool in builtin_tools()]
        with self.solved(workbench, files=self.program, task_facts=self.facts, tools=tools) as solved:
            used = bool(solved.double.trace.tool_calls)
            assert solved.returned.ended == "tool_error" or not used, f"the agent ended with {solved.returned.ended!r}"
