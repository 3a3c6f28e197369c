"""The contract of agents, and their context."""

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
    """A request for a sub-agent: a role, some of the tools, and a share of what its parent has left."""

    role: str  #: short lowercase name, such as `reviewer`
    tools: Collection[str] | None = attrs.field(default=None)
    """Names; ``None`` for all tools of the parent."""
    max_steps: int | None = None  #: tool calls; `None`: the parent's
    max_tokens: int | None = None  #: input and output tokens; `None`: the parent's
    max_cost_usd: float | None = None  #: US dollars; `None`: the parent's

    @tools.validator
    def _are_names(self, _: object, tools: object) -> None:
        if isinstance(tools, str):
            raise TypeError(f"tools of a sub-agent request must be a list of names, not {tools!r}")


def _ignore_version(version: str) -> None:
    """Do nothing."""


def _no_sub_agent(request: SubAgentRequest) -> AttemptContext:
    raise InputError(f"no sub-agent is available for role {request.role!r}")


@attrs.frozen(kw_only=True)
class TaskFacts:
    """Facts about a task for adversarial agents only: an attack that fails with them also fails without them."""

    editable: Sequence[str]
    """Paths of the Python files in the workspace that agents may edit."""
    passing_command: str  #: command that must pass after the fix
    hidden: Sequence[str]
    """Paths of the hidden tests during scoring. The files do not exist while the agent works."""


@attrs.frozen(kw_only=True)
class AttemptContext:
    """The context of an agent: never contains the solution, the hidden tests or the task's file."""

    instruction: str  #: the task's description, with the failing command and its output
    failure_output: str
    """The output of the failing command on the public tree."""
    failing_command: str  #: shell command that must pass after the fix
    tools: Toolbox  #: the available tools
    budget: Budget  #: steps, tokens and money; spent by tools and model
    deadline: Deadline  #: end of the agent phase
    log: EventLog  #: receives events of the agent
    report_prompt_version: Callable[[str], None] = _ignore_version
    """Report the version of the agent's prompts, so that it is recorded for every outcome."""
    llm: Model | None = None
    """For agents with the ``needs_llm`` capability."""
    delegate: Callable[[SubAgentRequest], AttemptContext] = _no_sub_agent
    """Delegate to a sub-agent: returns its context, whose usage counts here too, and writes the event.

    A parent handles BudgetExceeded for a sub-agent's share; its own ``budget.check()`` raises for any other budget.
    """
    script: tuple[ToolCall, ...] = ()
    """The reference solution as tool calls, for agents with the ``needs_oracle`` capability."""
    task_facts: TaskFacts | None = None
    """For agents with the ``adversary`` capability."""


@attrs.frozen(kw_only=True)
class AgentResult:
    """How the agent ended, if nothing stopped it."""

    ended: Literal["completed", "gave_up", "tool_error"] = attrs.field(
        default="completed", validator=attrs.validators.in_(("completed", "gave_up", "tool_error"))
    )  #: `gave_up`: no progress is possible; `tool_error`: a tool failed
    message: str = attrs.field(default="", validator=attrs.validators.instance_of(str))  #: the explanation, for people
    prompt_version: str = attrs.field(default="", validator=attrs.validators.instance_of(str))  #: version of its prompt


class Agent(Protocol):
    """The program under test. A new instance for each attempt.

    Capabilities: ``needs_llm``, ``needs_oracle``, ``adversary``. An adversarial agent tries to be scored as passing
    without solving the task. It ends with ``gave_up`` if the task gives it nothing to attack, and with ``tool_error``
    if the attack could not be carried out.
    """

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work on the task until it is done, or no more progress is possible. Do not catch AttemptStop."""
