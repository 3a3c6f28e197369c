"""Model calls of a lent attempt: metered, budgeted and recorded where the run is written, with its keys."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

import attrs

from agentbench_core.errors import (
    AgentBenchError,
    BudgetExceeded,
    DeadlineExceeded,
    InputError,
    Interrupted,
    LLMError,
)
from agentbench_core.plugin.agent import ProgramAgent
from agentbench_core.plugin.registry import NEEDS_SANDBOX
from agentbench_core.run.attempt.agent import within_its_limit
from agentbench_core.run.metering.llm import AgentModel, AttemptModels, OpenModels
from agentbench_core.run.metering.tools import StopSignal
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.run.remote.documents import (
    ALIVE_SEC,
    MOST_CALLS,
    Answer,
    Failure,
    ModelCall,
    Share,
    Spent,
    decoded,
    encoded,
    parts,
)
from agentbench_core.run.signals import in_thread
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, Message

_MOST_BUDGETS = 2000
_KEPT = 64
"""Number of answers that are kept in case a call is repeated."""


class _AttemptDeadline(Deadline):
    """The deadline of a lent attempt, as its worker measures it, and by how much waiting has extended it."""

    def __init__(self, stop: Deadline, extended: Callable[[], None]) -> None:
        """``extended`` is called after each extension."""
        super().__init__(0.0, parent=stop)
        self.extended_sec = 0.0
        self._extended = extended

    def at_least(self, seconds: float) -> None:
        """Set the remaining time that a worker reports, unless more time is known to remain."""
        self._end = max(self._end, self._clock() + seconds)

    def extend(self, seconds: float) -> None:
        """See the base class. The time of the whole command is not extended."""
        self._end += seconds
        self.extended_sec += seconds
        self._extended()


class _Exchange:
    """One call: the parts of its answer so far, which can be read more than once. Implements ``NativeResponse``."""

    def __init__(self) -> None:
        self._parts: list[Answer] = []
        self._native = 0
        self._wakes = 0
        self._changed = threading.Condition()
        self.ended = False
        """Whether the last part is known."""

    def append(self, part: Answer) -> None:
        """Add a part."""
        with self._changed:
            self._parts.append(part)
            self.ended = part.is_last
            self._changed.notify_all()

    def wake(self) -> None:
        """Let readers continue without a part."""
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """See the contract."""
        self._native += 1
        self.append(Answer(number=self._native, status=status, headers=headers))

    def add(self, data: bytes) -> None:
        """See the contract."""
        for part, _ in parts(data):
            self._native += 1
            self.append(Answer(number=self._native, data=encoded(part)))

    def read(self, seconds: float) -> Iterator[Answer | None]:
        """All parts, up to the last; ``None`` whenever none has been added for some seconds, and on :meth:`wake`."""
        position = wakes = 0
        while True:
            with self._changed:
                if position == len(self._parts) and wakes == self._wakes:
                    self._changed.wait(seconds)
                wakes = self._wakes
                part = self._parts[position] if position < len(self._parts) else None
            yield part
            position += part is not None
            if part is not None and part.is_last:
                return


class ModelCalls:
    """Answers the model calls of one attempt. Each id is answered once; a repeated call reads the same answer."""

    def __init__(self, plan: AttemptPlan, recording: Recording, models: OpenModels, stop: Deadline) -> None:
        self._plan = plan
        self._deadline = _AttemptDeadline(stop, self._wake)
        self._models: AttemptModels = models(plan, recording, self._deadline, StopSignal())
        limits = plan.variant.settings.limits
        self._root = Budget(max_tokens=limits.max_tokens, max_cost_usd=limits.max_cost_usd)
        self._budgets: dict[int, Budget] = {}
        self._agents: dict[tuple[str, int], AgentModel] = {}
        self._last: dict[tuple[str, int], tuple[int, tuple[Message, ...]]] = {}
        """The last call of each agent, with the messages of its request."""
        self._exchanges: OrderedDict[int, _Exchange] = OrderedDict()
        self._forgotten: set[int] = set()
        """Calls whose answers are no longer kept."""
        self._lock = threading.Lock()

    def _wake(self) -> None:
        """Notify workers at once that their time is extended, since they may be about to run out of time."""
        with self._lock:
            exchanges = list(self._exchanges.values())
        for exchange in exchanges:
            exchange.wake()

    @property
    def models(self) -> AttemptModels:
        """The models, with the usage so far."""
        return self._models

    @property
    def extended_sec(self) -> float:
        """Seconds by which waits for providers have extended the attempt."""
        return self._deadline.extended_sec

    def close(self) -> None:
        """Refuse further calls, and abandon calls in progress."""
        self._deadline.end(Interrupted("the attempt has ended"))
        self._models.close()

    def answer(self, call: ModelCall) -> Iterator[Answer]:
        """Make a call, or wait for the answer of a repeated one. Raises InputError for invalid calls.

        While the provider waits, informs the worker by how much its deadline is extended.
        """
        with self._lock:
            exchange = self._exchanges.get(call.id) or self._start(call)
        if exchange is None:
            yield Answer(unknown=True)
            return
        for part in exchange.read(ALIVE_SEC):
            yield part or Answer(extended_sec=self._deadline.extended_sec)

    def _start(self, call: ModelCall) -> _Exchange | None:
        """Begin a call; ``None`` if the messages that it leaves out are no longer known."""
        line = self._line(call.budgets)
        if call.id in self._forgotten:
            raise InputError(f"the response to model call {call.id} is no longer available")
        if sum(not each.ended for each in self._exchanges.values()) >= MOST_CALLS:
            raise InputError(f"an attempt may make at most {MOST_CALLS} concurrent model calls")
        while len(self._exchanges) > _KEPT and next(iter(self._exchanges.values())).ended:
            self._forgotten.add(self._exchanges.popitem(last=False)[0])
        agent = call.agent, call.budgets[0].id
        last, messages = self._last.get(agent, (0, ()))
        if call.left_out and call.like != last:
            return None
        call = _whole(call, messages)
        self._deadline.at_least(min(call.remaining_sec, self._plan.limits.timeout_sec + self.extended_sec))
        model = self._agents.get(agent)
        if model is None:
            model = self._agents[agent] = self._models.model(call.agent, line[0])
        exchange = _Exchange()
        ask = self._asked(call, model, exchange)
        self._exchanges[call.id] = exchange
        if call.request is not None:
            self._last[agent] = call.id, call.request.messages
        in_thread(lambda: self._complete(ask, call, line, exchange), f"model call of {call.agent}")
        return exchange

    def _asked(
        self, call: ModelCall, model: AgentModel, exchange: _Exchange
    ) -> Callable[[Deadline | None], Completion]:
        """How to make a call. A request of a program on a worker is checked again, since the worker is not trusted."""
        if call.native is None:
            request = call.request
            if request is None:
                raise InputError("a model call has no request")
            return lambda deadline: model.complete(request, deadline)
        if not self._plan.agent.can(NEEDS_SANDBOX):
            raise InputError("this agent has no program whose requests could be forwarded")
        agent: ProgramAgent = self._plan.agent.make()
        body = decoded(call.native.body)
        info = within_its_limit(self._models)
        parsed, native = agent.admit(call.native.path, call.native.headers, body, info, exchange)
        return lambda deadline: model.forward(parsed, native)

    def _line(self, shares: tuple[Share, ...]) -> list[Budget]:
        """The budget of a call and its parents. An unknown budget becomes a new share of its parent."""
        if not 1 <= len(shares) <= _MOST_BUDGETS:
            raise InputError(f"a model call needs at least one budget, and at most {_MOST_BUDGETS}")
        budget = self._budgets.setdefault(shares[-1].id, self._root) if not self._budgets else self._root
        if self._budgets.get(shares[-1].id) is not self._root:
            raise InputError(f"budget {shares[-1].id} is not the attempt's budget")
        line = [budget]
        for share in reversed(shares[:-1]):
            known = self._budgets.get(share.id)
            if known is None:
                if len(self._budgets) >= _MOST_BUDGETS:
                    raise InputError(f"an attempt may have at most {_MOST_BUDGETS} budgets")
                known = budget.share(max_tokens=share.max_tokens, max_cost_usd=share.max_cost_usd)
                self._budgets[share.id] = known
            if known.parent is not budget:
                raise InputError(f"budget {share.id} has a different parent")
            budget = known
            line.insert(0, budget)
        return line

    def _complete(
        self,
        ask: Callable[[Deadline | None], Completion],
        call: ModelCall,
        line: list[Budget],
        exchange: _Exchange,
    ) -> None:
        own = None if call.own_sec is None else Deadline(call.own_sec)
        try:
            result = Answer(completion=ask(own))
        except BaseException as error:  # noqa: BLE001 - sent to the worker, which raises it in the agent
            result = Answer(failure=_failure(error, line, own))
        exchange.append(
            attrs.evolve(
                result,
                spent=tuple(Spent(tokens=budget.tokens, cost_usd=budget.cost_usd) for budget in line),
                calls=self._models.calls,
                extended_sec=self._deadline.extended_sec,
            )
        )


def _whole(call: ModelCall, messages: tuple[Message, ...]) -> ModelCall:
    """A call with the messages that it leaves out, which are the first of ``messages``. Raises InputError."""
    if call.request is None or not call.left_out:
        return call
    if not 0 < call.left_out <= len(messages):
        raise InputError(f"model call {call.like} does not have {call.left_out} messages")
    whole = (*messages[: call.left_out], *call.request.messages)
    return attrs.evolve(call, request=attrs.evolve(call.request, messages=whole))


def _failure(error: BaseException, line: list[Budget], own: Deadline | None) -> Failure:
    message = error.message if isinstance(error, AgentBenchError) else f"{type(error).__name__}: {error}"
    match error:
        case BudgetExceeded():
            number = next((n for n, budget in enumerate(line) if budget is error.budget), len(line) - 1)
            return Failure(
                kind="budget", message=message, what=error.what, budget=number, ends_attempt=number == len(line) - 1
            )
        case DeadlineExceeded():
            return Failure(kind="deadline", message=message, ends_attempt=own is None or not own.expired)
        case Interrupted():
            return Failure(kind="interrupted", message=message, ends_attempt=True)
        case InputError():
            return Failure(kind="input", message=message, ends_attempt=False)
        case LLMError():
            return Failure(kind="llm", message=message, ends_attempt=True, stops_run=error.stops_run)
    return Failure(kind="llm", message=message, ends_attempt=True)
