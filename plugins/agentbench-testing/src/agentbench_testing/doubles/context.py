"""An attempt as an agent under test meets it: everything it calls is answered, and written down."""

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
    """Implements ``Model`` by a script: what an agent gets, without a provider behind it.

    What it answers is paid from ``budget``. Where ``facts`` name a window, a request that is longer overflows it,
    with one token for four bytes, and takes no answer from the script.
    """

    def __init__(
        self,
        answers: Script | Iterable[Answer] | Callable[[Request], Any],
        *,
        facts: ModelFacts | None = None,
        budget: Budget | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.script = answers if isinstance(answers, Script) else Script(answers)
        self._facts = facts or ModelFacts()
        self._budget = budget or Budget()
        self._deadline = deadline or Deadline(60.0)

    @property
    def facts(self) -> ModelFacts:
        """What it was made with."""
        return self._facts

    @property
    def requests(self) -> Sequence[Request]:
        """What the script was asked, in order."""
        return self.script.requests

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """The script's next answer; see the contract."""
        for each in (self._deadline, deadline):
            if each is not None:
                each.check()
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
        """The same for a sub-agent."""
        return ScriptedModel(self.script, facts=self._facts, budget=budget, deadline=self._deadline)


class RecordedEvents:
    """An event log that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event, *, durable: bool = False) -> None:
        """Take one event; ``durable`` is for logs on a disk."""
        self.events.append(event)


@attrs.frozen(kw_only=True)
class Exchanged:
    """One call of a tool or of the model, and what came back or was raised."""

    asked: ToolCall | Request
    got: ToolResult | Completion | BaseException


class Trace:
    """Every call of an attempt, those of sub-agents too. ``on_call`` is told the number of each, before it is made."""

    def __init__(self, deadline: Deadline, on_call: Callable[[int], None]) -> None:
        self.exchanged: list[Exchanged] = []
        self.begun = 0
        self.end: AttemptStop | LLMError | None = None
        """What ended the attempt, as the agent was told first."""
        self.late: list[ToolCall | Request] = []
        """Calls that began after that."""
        self._deadline = deadline
        self._on_call = on_call
        self._lock = threading.Lock()

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """Those that were made, in order of their ends."""
        return [each.asked for each in self.exchanged if isinstance(each.asked, ToolCall)]

    @property
    def requests(self) -> Sequence[Request]:
        """Those that the model was asked, in order of their ends."""
        return [each.asked for each in self.exchanged if isinstance(each.asked, Request)]

    def follow(self, asked: ToolCall | Request, make: Callable[[], T]) -> T:
        """Make a call, and write down what became of it."""
        with self._lock:
            self.begun += 1
            number = self.begun
            if self.end is not None:
                self.late.append(asked)
        self._on_call(number)
        try:
            got = make()
        except BaseException as error:
            with self._lock:
                self.exchanged.append(Exchanged(asked=asked, got=error))
                if self.end is None and isinstance(error, (AttemptStop, LLMError)) and self._final(error):
                    self.end = error
            raise
        with self._lock:
            assert isinstance(got, (ToolResult, Completion))
            self.exchanged.append(Exchanged(asked=asked, got=got))
        return got

    def _final(self, error: AttemptStop | LLMError) -> bool:
        """Whether it ends the attempt: not a share that a sub-agent got, nor a deadline that the agent made."""
        if isinstance(error, BudgetExceeded):
            return getattr(error.budget, "parent", None) is None
        return self._deadline.expired if isinstance(error, DeadlineExceeded) else True


@attrs.frozen
class TracedTools:
    """Implements ``Toolbox`` by another one."""

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
    """Implements ``Model`` by a scripted one."""

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
    """A context whose calls are followed, its sub-agents' too, with a model that is paid from its budget."""

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
    """An attempt that is under way. Give ``context`` to an agent, then look at the rest."""

    context: AttemptContext
    workspace: Path
    """On this machine."""
    sandbox: Sandbox
    """The one that the tools use: what is done here is no step."""
    trace: Trace
    recorded: RecordedEvents
    model: ScriptedModel | None
    deadline: Deadline
    """The attempt's own, which may be ended and extended."""

    @property
    def budget(self) -> Budget:
        """The attempt's own."""
        return self.context.budget

    @property
    def events(self) -> Sequence[Event]:
        """Those of the agent and of its tools."""
        return self.recorded.events

    @property
    def requests(self) -> Sequence[Request]:
        """What the model was asked, requests that were too long for it included."""
        return self.trace.requests

    @property
    def last_messages(self) -> tuple[Message, ...]:
        """The messages of the last request."""
        return self.requests[-1].messages if self.requests else ()

    def end(self, reason: AttemptStop) -> None:
        """End the attempt now, in the way that fits the reason: its budget is used up, or its time is over."""
        if isinstance(reason, BudgetExceeded):
            self.budget.end(reason)
        else:
            self.deadline.end(reason)

    def text(self, path: str) -> str:
        """What a file of the workspace says."""
        return (self.workspace / path).read_text()

    def passes(self) -> bool:
        """Whether the failing command passes by now."""
        return self.sandbox.exec(self.context.failing_command, deadline=Deadline(60.0)).ok
