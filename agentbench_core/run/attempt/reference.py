"""The change that a task's reference solution makes: with the tools that agents have, and within their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_core.errors import BudgetExceeded, DeadlineExceeded
from agentbench_core.plugin.agent import AgentResult, AttemptContext
from agentbench_core.plugin.contracts import Toolbox
from agentbench_core.run.attempt.change import FrozenChange, freeze
from agentbench_core.run.attempt.preparation import Preparations, Prepared
from agentbench_core.run.metering.tools import AgentTools, Stop, open_toolbox
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import ToolCall


class ReferenceRefused(Exception):  # noqa: N818 - a finding about a task
    """The reference solution could not be applied: there was no time, an edit was not allowed, or a call failed."""

    def __init__(self, how: Literal["late", "not_editable", "failed"], reason: str) -> None:
        super().__init__(reason)
        self.how = how


@attrs.define
class ApplyReference:
    """An agent that applies the reference solution, and keeps why it could not."""

    refused: ReferenceRefused | None = None

    def solve(self, context: AttemptContext) -> AgentResult:
        """Make the calls in order, up to the first one that is refused."""
        try:
            _apply(context.tools, context.script)
        except ReferenceRefused as error:
            self.refused = error
            return AgentResult(ended="tool_error", message=str(error))
        return AgentResult()


def reference_change(
    plan: AttemptPlan, prepared: Prepared, shared: Preparations, recording: Recording, deadline: Deadline
) -> FrozenChange:
    """Apply the reference solution to a fork, and freeze what it changed.

    Raises:
        ReferenceRefused: a call was refused, or there was no time.
        SandboxError: the machinery broke.
    """
    workspace = shared.fork(plan.task, prepared.environment, "workspace", hidden=False)
    try:
        with open_toolbox(
            plan, prepared.environment, workspace, deadline=deadline, recording=recording, stop=Stop()
        ) as toolbox:
            budget = Budget(max_steps=plan.limits.max_steps)
            _apply(AgentTools(toolbox, "oracle", budget, frozenset(toolbox.tools)), plan.task.script)
        return freeze(shared.snapshots, prepared.base, workspace, plan.task.spec)
    finally:
        shared.discard(workspace)


def _apply(tools: Toolbox, calls: Sequence[ToolCall]) -> None:
    for number, call in enumerate(calls, start=1):
        try:
            result = tools.call(call)
        except DeadlineExceeded:
            named = _named(number, calls, call)
            raise ReferenceRefused("late", f"the oracle runs out of time in {named}") from None
        except BudgetExceeded as error:
            reason = f"the oracle has {len(calls)} calls: {error.message}"
            raise ReferenceRefused("failed", reason) from None
        if not result.ok:
            said = f"{_named(number, calls, call)} is refused: {result.error_type}: {result.error_message}"
            forbidden = result.error_type == "not_editable"
            raise ReferenceRefused("not_editable" if forbidden else "failed", said)


def _named(number: int, calls: Sequence[ToolCall], call: ToolCall) -> str:
    return f"call {number} of {len(calls)} of the oracle ({call.tool})"
