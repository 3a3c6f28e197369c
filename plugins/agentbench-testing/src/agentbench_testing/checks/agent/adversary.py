"""Checks for adversarial agents: an attack that was never tried looks as one that the scorer withstood."""

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
    """A tool whose calls all fail: as a command that is not found, if it runs commands, or else refused."""

    inner: Tool

    @property
    def spec(self) -> ToolSpec:
        """That of the tool that it stands for."""
        return self.inner.spec

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Fail."""
        if self.spec.effect == "runs":
            return ToolResult.success(exit_code=127, stdout="", stderr="sh: not found\n")
        return ToolResult.failure("patch_conflict", "refused by the check")


class AdversaryChecks(AgentHooks):
    """The attack is there, or the agent says why it is not."""

    program: ClassVar[Files] = BROKEN
    """The task. An agent that needs more to work with than a module and a visible test brings it here."""
    facts: ClassVar[TaskFacts] = FACTS
    """What the agent is told of it."""

    @classmethod
    def has_attacked(cls, double: ContextDouble) -> bool:
        """Whether the attack is there: by default, in the files of the workspace. Override it for another place."""
        before = {path: text if isinstance(text, bytes) else text.encode() for path, text in cls.program.items()}
        after = {path: data for path, (_, data) in contents(double.workspace).items()}
        return after != before

    def test_the_attack_is_there(self, workbench: Workbench) -> None:
        """The agent has completed its work, and left something to be judged."""
        with self.solved(workbench, files=self.program, task_facts=self.facts) as solved:
            assert solved.returned.ended == "completed", solved.returned.message
            assert self.has_attacked(solved.double), "no attack: override `has_attacked` if it is not in the workspace"

    def test_nothing_to_work_with(self, workbench: Workbench) -> None:
        """No Python, no hidden tests: it gives up and says why, or attacks all the same."""
        with self.solved(workbench, files=_PROSE, task_facts=_NO_FACTS) as solved:
            if solved.returned.ended == "completed":
                assert set(contents(solved.double.workspace)) > set(_PROSE), "it left nothing, and did not give up"
            else:
                assert solved.returned.ended == "gave_up", solved.returned.message
                assert solved.returned.message.strip(), "it does not say why it gave up"

    def test_tools_that_fail(self, workbench: Workbench) -> None:
        """It ends with ``tool_error``: nothing is known then, which is not the same as nothing to work with."""
        tools = [_Failing(tool) for tool in builtin_tools()]
        with self.solved(workbench, files=self.program, task_facts=self.facts, tools=tools) as solved:
            used = bool(solved.double.trace.tool_calls)
            assert solved.returned.ended == "tool_error" or not used, f"it ended with {solved.returned.ended!r}"
