"""The context of an agent under test, which records every call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from agentbench_core import (
    AttemptContext,
    AttemptStop,
    Budget,
    BudgetExceeded,
    Completion,
    Deadline,
    DeadlineExceeded,
    LLMError,
    Message,
    ModelFacts,
    Request,
    Sandbox,
    SubAgentRequest,
    Toolbox,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from agentbench_core.values.events import Event
from agentbench_core.values.limits import Reservation
from agentbench_testing.doubles.models import Answer, Script, says, tokens_of

T = TypeVar("T")


class ScriptedModel:
    """Implements ``Model`` with a script: the model of an agent, without a provider.

    Responses are charged to ``budget``. If ``facts`` contain a context window, a longer request, at four bytes per
    token, gets ``context_overflow`` and uses no response of the script.
    """

    def __init__(
        self,
        answers: Script | Iterable[Answer] | Callable[[Request], Any],
        *,
        facts: ModelFacts | None = None,
        budget: Budget | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.script = answers if isinstance(answers, Script) else Script(answers)  #: the responses
        self._facts = facts or ModelFacts()
        self._budget = budget or Budget()
        self._deadline = deadline or Deadline(60.0)

    @property
    def facts(self) -> ModelFacts:
        """The facts it was created with."""
        return self._facts

    @property
    def requests(self) -> Sequence[Request]:
        """The requests to the script, in order."""
        return self.script.requests

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """The script's next response; see the contract."""
        for limit in (self._deadline, deadline):
            if limit is not None:
                limit.check()
        self._budget.check_spend()
        window = self._facts.context_tokens
        if window is not None and tokens_of(request) > window:
            return says("", finish="context_overflow")
        answer = self.script.answer(request)
        usage = answer.usage or Usage()
        used = usage.prompt_tokens + usage.completion_tokens
        self._budget.settle(Reservation(tokens=0, cost_usd=0.0), tokens=used, cost_usd=usage.cost_usd or 0.0)
        return answer

    def paid_from(self, budget: Budget) -> ScriptedModel:
        """The same model, charged to another budget."""
        return ScriptedModel(self.script, facts=self._facts, budget=budget, deadline=self._deadline)


class RecordedEvents:
    """An event log that records events in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []  #: the events so far

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Record one event; ``durable`` has no effect."""
        self.events.append(event)


@attrs.frozen(kw_only=True)
class RecordedCall:
    """One call of a tool or of the model, and its result or exception."""

    request: ToolCall | Request  #: the call
    got: ToolResult | Completion | BaseException  #: its result or exception


class Trace:
    """All calls of an attempt and its sub-agents. ``on_call`` gets the number of each call before it starts."""

    def __init__(self, deadline: Deadline, on_call: Callable[[int], None]) -> None:
        self.exchanged: list[RecordedCall] = []  #: every call that has ended, in this order
        self.begun = 0  #: number of calls that have started
        self.end: AttemptStop | LLMError | None = None
        """The exception that ended the attempt, as first raised by a call; ``None`` if no call has raised one."""
        self.late: list[ToolCall | Request] = []
        """Calls that started after a call had raised ``end``."""
        self._deadline = deadline
        self._on_call = on_call
        self._lock = threading.Lock()

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """Tool calls, in the order in which they ended."""
        return [call.request for call in self.exchanged if isinstance(call.request, ToolCall)]

    @property
    def requests(self) -> Sequence[Request]:
        """Model calls, in the order in which they ended."""
        return [call.request for call in self.exchanged if isinstance(call.request, Request)]

    def follow(self, request: ToolCall | Request, make: Callable[[], T]) -> T:
        """Make a call, and record its result or exception."""
        with self._lock:
            self.begun += 1
            number = self.begun
            if self.end is not None:
                self.late.append(request)
        self._on_call(number)
        try:
            got = make()
        except BaseException as error:
            with self._lock:
                self.exchanged.append(RecordedCall(request=request, got=error))
                if self.end is None and isinstance(error, (AttemptStop, LLMError)) and self._final(error):
                    self.end = error
            raise
        with self._lock:
            assert isinstance(got, (ToolResult, Completion))
            self.exchanged.append(RecordedCall(request=request, got=got))
        return got

    def _final(self, error: AttemptStop | LLMError) -> bool:
        """Whether an error ends the attempt, and not only a sub-agent's share or a deadline created by the agent."""
        if isinstance(error, BudgetExceeded):
            return getattr(error.budget, "parent", None) is None
        return self._deadline.expired if isinstance(error, DeadlineExceeded) else True


@attrs.frozen
class TracedTools:
    """Implements ``Toolbox`` by delegation, and records every call."""

    inner: Toolbox
    trace: Trace

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """See the contract."""
        return self.inner.specs

    def call(self, call: ToolCall) -> ToolResult:
        """See the contract."""
        return self.trace.follow(call, lambda: self.inner.call(call))


@attrs.frozen
class TracedModel:
    """Implements ``Model`` by delegation to a scripted model, and records every call."""

    inner: ScriptedModel
    trace: Trace

    @property
    def facts(self) -> ModelFacts:
        """See the contract."""
        return self.inner.facts

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """See the contract."""
        return self.trace.follow(request, lambda: self.inner.complete(request, deadline))


def traced(context: AttemptContext, model: ScriptedModel | None, trace: Trace) -> AttemptContext:
    """A context whose calls and sub-agents' calls are recorded, and whose model is charged to its budget."""

    def delegate(mandate: SubAgentRequest) -> AttemptContext:
        return traced(context.delegate(mandate), model, trace)

    return attrs.evolve(
        context,
        tools=TracedTools(context.tools, trace),
        llm=None if model is None else TracedModel(model.paid_from(context.budget), trace),
        delegate=delegate,
    )


@attrs.frozen(kw_only=True)
class ContextDouble:
    """An attempt in progress. Pass ``context`` to an agent, then inspect the rest."""

    context: AttemptContext  #: the context for the agent
    workspace: Path
    """The path of the workspace on this machine."""
    sandbox: Sandbox
    """The sandbox that the tools use. Commands that a test runs in it are not steps."""
    trace: Trace  #: all calls of tools and of the model
    recorded: RecordedEvents  #: the event log
    model: ScriptedModel | None  #: the scripted model; `None` if there is none
    deadline: Deadline
    """The attempt's own deadline, which may be ended and extended."""

    @property
    def budget(self) -> Budget:
        """The attempt's budget."""
        return self.context.budget

    @property
    def events(self) -> Sequence[Event]:
        """Events of the agent and of its tools."""
        return self.recorded.events

    @property
    def requests(self) -> Sequence[Request]:
        """The requests to the model, including those that were too long."""
        return self.trace.requests

    @property
    def last_messages(self) -> tuple[Message, ...]:
        """The messages of the last request; empty if there was none."""
        return self.requests[-1].messages if self.requests else ()

    def end(self, reason: AttemptStop) -> None:
        """End the attempt now: its budget if the reason is BudgetExceeded, and otherwise its deadline."""
        if isinstance(reason, BudgetExceeded):
            self.budget.end(reason)
        else:
            self.deadline.end(reason)

    def text(self, path: str) -> str:
        """The content of a file in the workspace."""
        return (self.workspace / path).read_text()

    def passes(self) -> bool:
        """Whether the failing command passes now."""
        return self.sandbox.exec(self.context.failing_command, deadline=Deadline(60.0)).ok
