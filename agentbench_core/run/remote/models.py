"""The models of an attempt on a worker: every call is made by the process that writes the run."""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Iterator

import attrs

from agentbench_core.errors import (
    AgentBenchError,
    AttemptStop,
    BudgetExceeded,
    DeadlineExceeded,
    InputError,
    Interrupted,
    LLMError,
)
from agentbench_core.plugin.llm import NativeExchange
from agentbench_core.run.metering.conversation import Conversation
from agentbench_core.run.metering.llm import filled, named
from agentbench_core.run.metering.tools import StopSignal
from agentbench_core.run.recording import Evidence
from agentbench_core.run.remote.documents import (
    MOST_CALLS,
    Answer,
    Failure,
    ModelCall,
    NativeRequest,
    Share,
    decoded,
    encoded,
)
from agentbench_core.values.limits import LOOK_EVERY_SEC, Budget, Deadline
from agentbench_core.values.messages import Completion, Message, ModelFacts, Request, Usage
from agentbench_core.values.record import ModelInfo

Ask = Callable[[Callable[[int], ModelCall]], Iterator[Answer]]
"""Makes a model call, given the number of the last message that was sent before it. Raises Interrupted."""


class Sent:
    """The last request of an agent that the other side has; later requests leave out its messages. Thread-safe."""

    def __init__(self) -> None:
        self._last: tuple[int, tuple[Message, ...]] = 0, ()

    def shared(self, request: Request) -> tuple[int, int]:
        """The call of the last request, and how many messages can be left out: all, if these objects are the first."""
        call, messages = self._last
        same = len(request.messages) >= len(messages) and all(map(operator.is_, request.messages, messages))
        return (call, len(messages)) if same else (0, 0)

    def add(self, call: int, request: Request) -> None:
        """The other side has the request of a call."""
        self._last = call, request.messages


class RemoteModels:
    """Implements ``AttemptModels``. Usage and cost are counted where the run is written."""

    def __init__(
        self,
        lease: int,
        token: str,
        info: ModelInfo,
        facts: ModelFacts,
        deadline: Deadline,
        stop: StopSignal,
        ask: Ask,
        files: Evidence,
    ) -> None:
        self.info = info
        self.facts = facts
        self.calls = 0
        self.usage = Usage(cost_usd=0.0)
        self._lease = lease
        self._token = token
        self._deadline = deadline
        self._stop = stop
        self._ask = ask
        self._files = files
        self._ids = itertools.count(1)
        self._shares: list[tuple[Budget, Share]] = []
        self._extended_sec = 0.0
        self._open = 0
        self._slots = threading.BoundedSemaphore(MOST_CALLS)
        self._closed = False
        self._lock = threading.Lock()

    @property
    def in_progress(self) -> bool:
        """See the contract."""
        return self._open > 0

    def model(self, agent: str, budget: Budget) -> RemoteModel:
        """See the contract."""
        return RemoteModel(self, agent, budget, Conversation(self._files, agent))

    def close(self) -> None:
        """See the contract."""
        self._closed = True

    def complete(
        self,
        agent: str,
        budget: Budget,
        request: Request,
        own: Deadline | None,
        conversation: Conversation,
        sent: Sent,
        native: NativeExchange | None = None,
    ) -> Completion:
        """Make one call, and write it to the conversation that auditors read here. Raises like ``Model.complete``."""
        if isinstance(self._stop.error, (AttemptStop, LLMError)):
            raise self._stop.error  # raised again if the agent caught it
        try:
            self._deadline.check()
            if self._closed:
                raise Interrupted("the agent phase is over")
            budget.check_spend()
            made = filled(request, self.info) if native is None else named(request, self.info)
            completion = self._completed(agent, budget, made, own, sent, native)
            conversation.add(self.calls, made, completion)
            return completion
        except (AttemptStop, LLMError) as error:
            if not self._is_own(error, own):
                self._stop.set(error)
            raise

    def _is_own(self, error: AgentBenchError, own: Deadline | None) -> bool:
        """Whether an error concerns only a sub-agent's budget or the agent's own deadline, and the attempt goes on."""
        if isinstance(error, BudgetExceeded):
            return getattr(error.budget, "parent", None) is not None
        return isinstance(error, DeadlineExceeded) and not self._deadline.expired

    def _completed(
        self,
        agent: str,
        budget: Budget,
        request: Request,
        own: Deadline | None,
        sent: Sent,
        native: NativeExchange | None,
    ) -> Completion:
        line = budget.line()
        while not self._slots.acquire(timeout=LOOK_EVERY_SEC):
            self._deadline.check()
            if own is not None:
                own.check()
        like, left_out = sent.shared(request)
        with self._lock:
            self._open += 1
            number = next(self._ids)
            budgets = tuple(self._share(each) for each in line)

        def call(after: int) -> ModelCall:
            return ModelCall(
                lease=self._lease,
                token=self._token,
                id=number,
                after=after,
                agent=agent,
                budgets=budgets,
                remaining_sec=self._deadline.remaining(),
                own_sec=None if own is None else own.remaining(),
                request=attrs.evolve(request, messages=request.messages[left_out:]) if native is None else None,
                like=like,
                left_out=left_out,
                native=_sent(native) if native else None,
            )

        try:
            last = self._last_part(call, native)
            if last.unknown:
                like = left_out = 0
                last = self._last_part(call, native)
            if not last.is_last:
                raise Interrupted("the response to a model call is incomplete")
            if native is None:
                sent.add(number, request)
            return self._result(last, line)
        finally:
            with self._lock:
                self._open -= 1
            self._slots.release()

    def _last_part(self, call: Callable[[int], ModelCall], native: NativeExchange | None) -> Answer:
        """Make a call, and return the last part of its answer; responses of a native request are passed on before."""
        passed_on, last = 0, Answer()
        for part in self._ask(call):
            self._extend(part)
            last = part  # also after the result: only a response that was read to its end leaves its connection open
            if native is not None and part.number == passed_on + 1:  # others are repeated
                _pass_on(part, native)
                passed_on += 1
        return last

    def _share(self, budget: Budget) -> Share:
        """A budget as described to the other side, which already has the limits of the attempt's own budget."""
        known = next((share for each, share in self._shares if each is budget), None)
        if known is None:
            known = Share(id=len(self._shares))
            if budget.parent is not None:
                known = attrs.evolve(known, max_tokens=budget.max_tokens, max_cost_usd=budget.max_cost_usd)
            self._shares.append((budget, known))
        return known

    def _extend(self, part: Answer) -> None:
        with self._lock:
            if part.extended_sec and part.extended_sec > self._extended_sec:
                self._deadline.extend(part.extended_sec - self._extended_sec)
                self._extended_sec = part.extended_sec

    def _result(self, part: Answer, line: list[Budget]) -> Completion:
        for budget, spent in zip(line, part.spent, strict=False):
            budget.observe(tokens=spent.tokens, cost_usd=spent.cost_usd)
        self.calls = max(self.calls, part.calls)
        if part.failure is not None:
            raise _error(part.failure, line)
        assert part.completion is not None
        return part.completion


class RemoteModel:
    """Implements ``AgentModel`` for one agent of an attempt."""

    def __init__(self, models: RemoteModels, agent: str, budget: Budget, conversation: Conversation) -> None:
        self._conversation = conversation
        self._models = models
        self._agent = agent
        self._budget = budget
        self._sent = Sent()

    @property
    def facts(self) -> ModelFacts:
        """See the contract."""
        return self._models.facts

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """See the contract."""
        return self._models.complete(self._agent, self._budget, request, deadline, self._conversation, self._sent)

    def forward(self, request: Request, native: NativeExchange) -> Completion:
        """See the contract."""
        return self._models.complete(self._agent, self._budget, request, None, self._conversation, self._sent, native)


def _sent(native: NativeExchange) -> NativeRequest:
    return NativeRequest(path=native.path, headers=dict(native.headers), body=encoded(native.body))


def _pass_on(part: Answer, native: NativeExchange) -> None:
    """Pass a part of the response to the program. Raises Interrupted if it does not accept it."""
    try:
        if part.status is not None:
            native.started(part.status, part.headers)
        if part.data is not None:
            native.received(decoded(part.data))
    except ValueError as error:
        raise Interrupted(f"the response to a model call is not valid: {error}") from None


def _error(failure: Failure, line: list[Budget]) -> AgentBenchError:
    match failure.kind:
        case "budget":
            budget = line[min(max(failure.budget, 0), len(line) - 1)]
            error = BudgetExceeded(failure.message, budget=budget, what=failure.what)
            budget.end(error)
            return error
        case "deadline":
            return DeadlineExceeded(failure.message)
        case "interrupted":
            return Interrupted(failure.message)
        case "input":
            return InputError(failure.message)
    return LLMError(failure.message, stops_run=failure.stops_run)
