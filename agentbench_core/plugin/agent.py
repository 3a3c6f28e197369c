"""The contract of agents, and their context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from agentbench_core.errors import InputError

if TYPE_CHECKING:  # see contracts
    from pathlib import Path

    from agentbench_core.plugin.contracts import EventLog, Toolbox
    from agentbench_core.plugin.llm import Model, NativeExchange, NativeResponse
    from agentbench_core.plugin.sandbox import ProgramSandbox
    from agentbench_core.values.limits import Budget, Deadline
    from agentbench_core.values.messages import Completion, Request, ToolCall, ToolResult
    from agentbench_core.values.record import ModelInfo


@attrs.frozen(kw_only=True)
class SubAgentRequest:
    """A request for a sub-agent: a role, some of the tools, and a share of the parent's remaining budget."""

    role: str  #: short lowercase name, such as `reviewer`
    tools: Collection[str] | None = attrs.field(default=None)
    """Names of tools; ``None`` for all tools of the parent."""
    max_steps: int | None = None  #: maximum tool calls; `None`: the parent's limit
    max_tokens: int | None = None  #: maximum input and output tokens; `None`: the parent's limit
    max_cost_usd: float | None = None  #: maximum US dollars; `None`: the parent's limit

    @tools.validator
    def _are_names(self, _: object, tools: object) -> None:
        if isinstance(tools, str):
            raise TypeError(f"the tools of a sub-agent request must be a list of names, not {tools!r}")


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
class ProgramContext:
    """Additional context for an agent that runs a program in the sandbox."""

    sandbox: ProgramSandbox
    """The sandbox of the attempt. Its commands are not steps."""
    model: ModelInfo | None
    """The model and its sampling settings, which requests must use; ``None`` for an agent without a model."""
    forward: Callable[[Request, NativeExchange], Completion]
    """Forward a model call of the program's own client. The request is its parsed copy, which is recorded and metered.

    Raises the errors of ``Model.complete``.
    """
    observe: Callable[[ToolCall], Callable[[ToolResult], None]]
    """Record a call of one of the program's own tools as a step; returns a function that accepts the result.

    Raises AttemptStop if time or steps are used up.
    """
    save: Callable[[str, bytes], None]
    """Save a file as evidence under ``agent/``, such as a session log; secrets are redacted."""
    label: Callable[[str, str], None]
    """Add a label to the record: its name, and the reason for it."""


@attrs.frozen(kw_only=True)
class AttemptContext:
    """The context of an agent. It never contains hidden tests; only a ``needs_oracle`` agent receives the solution."""

    instruction: str  #: the task's description, with the failing command and its output
    failure_output: str
    """The output of the failing command on the unmodified repository."""
    failing_command: str  #: shell command that fails before the fix
    tools: Toolbox  #: the available tools
    budget: Budget  #: limits on steps, tokens and money, used up by tools and the model
    deadline: Deadline  #: end of the agent phase
    log: EventLog  #: receives events of the agent
    report_prompt_version: Callable[[str], None] = _ignore_version
    """Report the version of the agent's prompts, so that it is recorded for every outcome."""
    llm: Model | None = None
    """The model, for agents with the ``needs_llm`` capability."""
    delegate: Callable[[SubAgentRequest], AttemptContext] = _no_sub_agent
    """Record the delegation to a sub-agent, and return the sub-agent's context; its usage also counts here.

    A parent may catch a sub-agent's BudgetExceeded; its own ``budget.check()`` raises if its own budget is also used
    up.
    """
    script: tuple[ToolCall, ...] = ()
    """The reference solution as tool calls, for agents with the ``needs_oracle`` capability."""
    task_facts: TaskFacts | None = None
    """Facts about the task, for agents with the ``adversary`` capability."""
    program: ProgramContext | None = None
    """Additional context for agents with the ``needs_sandbox`` capability."""


@attrs.frozen(kw_only=True)
class AgentResult:
    """The result of an agent that ended by itself."""

    ended: Literal["completed", "gave_up", "tool_error"] = attrs.field(
        default="completed", validator=attrs.validators.in_(("completed", "gave_up", "tool_error"))
    )  #: `gave_up`: no progress is possible; `tool_error`: a tool failed
    message: str = attrs.field(default="", validator=attrs.validators.instance_of(str))  #: human-readable explanation
    prompt_version: str = attrs.field(default="", validator=attrs.validators.instance_of(str))  #: version of its prompt


class Agent(Protocol):
    """The program under test. Each attempt has a new instance.

    Capabilities: ``needs_llm``, ``needs_oracle``, ``adversary``, ``needs_sandbox``. An adversarial agent tries to be
    scored as passing without solving the task. It ends with ``gave_up`` if the task gives it nothing to attack, and
    with ``tool_error`` if the attack could not be carried out. An agent that needs the sandbox is a
    :class:`ProgramAgent`.
    """

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work on the task until it is done, or no more progress is possible. Do not catch AttemptStop."""


class ProgramAgent(Agent, Protocol):
    """An agent with the ``needs_sandbox`` capability: it runs a program in the sandbox, and forwards its model calls.

    It requires a sandbox with ``programs`` and, if it also needs a model, a provider with ``forwards``.
    """

    @property
    def programs(self) -> Mapping[str, Path]:
        """Host directories to mount read-only in the sandbox during the agent phase, by name, such as ``codex-1.0``."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Identifies the program, for example by its version and digest; part of the variant."""

    def admit(
        self, path: str, headers: Mapping[str, str], body: bytes, model: ModelInfo, response: NativeResponse
    ) -> tuple[Request, NativeExchange]:
        """Check a request that this agent forwards from a worker, which may have been changed there.

        Args:
            path: the path of the exchange, as passed to ``forward``.
            headers: its headers.
            body: its body.
            model: the model and its sampling settings, which the request must use.
            response: receives the response while it arrives.

        Returns:
            The parsed request, and the exchange to forward, with the body that is actually sent.

        Raises:
            InputError: the request must not be forwarded.
        """
