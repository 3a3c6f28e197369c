"""Two controls: an agent that applies the reference solution, and one that does nothing."""

from __future__ import annotations

import attrs

from agentbench_core import AgentResult, AttemptContext
from agentbench_core.builtin.options import NoOptions, ScriptedOptions


@attrs.frozen
class Scripted:
    """Makes the tool calls of the reference solution: the positive control, which must pass every valid task."""

    options: ScriptedOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Make the calls in order."""
        if not context.script:
            return AgentResult(ended="gave_up", message="the task has no reference solution to apply")
        for call in context.script:
            result = context.tools.call(call)
            if not result.ok and self.options.stop_on_error:
                return AgentResult(ended="tool_error", message=f"{result.error_type}: {result.error_message}")
        return AgentResult()


@attrs.frozen
class Idle:
    """Does nothing: the no-op control, which must not pass any task."""

    options: NoOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Return without making any calls."""
        return AgentResult(message="no-op control: made no changes (expected)")
