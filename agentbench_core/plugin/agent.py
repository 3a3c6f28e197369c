"""The contract of the kind ``agent``, and the context that an agent works in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from agentbench_core.errors import InputError

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.contracts import EventLog, Toolbox
    from agentbench_core.plugin.llm import Model
    from agentbench_core.values.limits import Budget, Deadline
    from agentbench_core.values.messages import ToolCall


@attrs.frozen(kw_only=True)
class SubAgentRequest:
    """What a sub-agent is given: a role, some of the tools, and at most so much of what its parent has left."""

    role: str
    tools: Collection[str] | None = attrs.field(default=None)
    """Names; ``None`` gives all that the parent has."""
    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None

    @tools.validator
    def _are_names(self, _: object, tools: object) -> None:
        if isinstance(tools, str):
            raise TypeError(f"tools of a sub-agent request must be a list of names, not {tools!r}")


def _say_nothing(version: str) -> None:
    """Nobody wants to know."""


def _nobody(mandate: SubAgentRequest) -> AttemptContext:
    raise InputError(f"no sub-agent is available for role {mandate.role!r}")


@attrs.frozen(kw_only=True)
class TaskFacts:
    """What only adversarial agents are told of a task: what does not let them pass lets nobody pass."""

    editable: Sequence[str]
    """Paths of the Python files in the workspace that the task lets agents edit."""
    passing_command: str
    hidden: Sequence[str]
    """Where hidden tests will lie when the change is judged. They are not there while the agent works."""


@attrs.frozen(kw_only=True)
class AttemptContext:
    """What an agent may know: never the solution, the hidden tests or the task's file."""

    instruction: str
    failure_output: str
    """What the failing command prints on the public tree."""
    failing_command: str
    tools: Toolbox
    budget: Budget
    deadline: Deadline
    log: EventLog
    report_prompt_version: Callable[[str], None] = _say_nothing
    """Tell which version of its prompts the agent uses, so that records know it however the attempt ends."""
    llm: Model | None = None
    """For agents with the capability ``needs_llm``."""
    delegate: Callable[[SubAgentRequest], AttemptContext] = _nobody
    """Hand work to a sub-agent: gives the context that it works in, whose use counts here too, and writes the event.

    BudgetExceeded of the sub-agent's own share is for whoever delegated: ``budget.check()`` raises if more is over.
    """
    script: tuple[ToolCall, ...] = ()
    """The oracle as tool calls, for agents with the capability ``needs_oracle``."""
    task_facts: TaskFacts | None = None
    """For agents with the capability ``adversary``."""


@attrs.frozen(kw_only=True)
class AgentResult:
    """How the agent ended by itself. ``message`` is for people: it becomes part of the attempt's explanation."""

    ended: Literal["completed", "gave_up", "tool_error"] = attrs.field(
        default="completed", validator=attrs.validators.in_(("completed", "gave_up", "tool_error"))
    )
    message: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    prompt_version: str = attrs.field(default="", validator=attrs.validators.instance_of(str))


class Agent(Protocol):
    """The program under test. Made anew for each attempt.

    Capabilities: ``needs_llm``, ``needs_oracle``, ``adversary``. An adversarial agent tries to be scored as passing
    without solving the task. It ends with ``gave_up`` where a task has nothing that it could work with, and with
    ``tool_error`` where it could not be tried.
    """

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work on the task until it is done, or nothing more can be done. Let AttemptStop pass."""
