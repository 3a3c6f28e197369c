"""Accounting of model calls: one meter per attempt, one ledger entry per exchange."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs

from agentbench_core.errors import Interrupted, LLMError
from agentbench_core.run.metering.models import RunBudgetExceededError, RunModel
from agentbench_core.run.metering.native import RecordedExchange
from agentbench_core.run.metering.tools import StopSignal
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import AttemptEvents, Evidence
from agentbench_core.values.events import LLMFailed, LLMRequest, Warning_
from agentbench_core.values.limits import Budget, Deadline, Reservation
from agentbench_core.values.messages import Completion, FailedExchange, Request, Usage

_LONGEST = 1 << 20  # maximum tokens assumed for a response that has no known limit


@attrs.define(kw_only=True)
class Meter:
    """Shared by all agents of an attempt: the run's model, the attempt's time, and the usage so far."""

    plan: AttemptPlan
    model: RunModel
    deadline: Deadline
    log: AttemptEvents
    files: Evidence
    stop: StopSignal
    calls: int = 0
    usage: Usage = Usage(cost_usd=0.0)
    _open: set[Call] = attrs.field(factory=set)
    _closed: bool = False
    _given_until: float = 0.0
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    @property
    def in_progress(self) -> bool:
        """Whether a call to the provider is in progress."""
        return bool(self._open)

    def is_only(self, call: Call) -> bool:
        """Whether no other call of the attempt is in progress."""
        with self._lock:
            return self._open <= {call}

    def begin(self, call: Call) -> int:
        """Add a call, and return its number, from 1. Raises Interrupted if the agent phase is over."""
        with self._lock:
            if self._closed:
                raise Interrupted("the agent phase is over")
            self._open.add(call)
            self.calls += 1
            return self.calls

    def end(self, call: Call) -> None:
        """Remove a call that has ended."""
        with self._lock:
            self._open.discard(call)

    def close(self) -> None:
        """Refuse further calls, and abandon calls in progress."""
        with self._lock:
            self._closed = True
            unfinished = list(self._open)
        for call in unfinished:
            call.abandon("the attempt has ended")

    def give_back(self, seconds: float) -> None:
        """Exclude waiting time from the attempt's time. Waits of several agents at the same time count once."""
        with self._lock:
            now = time.monotonic()
            until = now + seconds
            self.deadline.extend(max(0.0, until - max(now, self._given_until)))
            self._given_until = max(self._given_until, until)

    def count(self, usage: Usage) -> None:
        """Add the usage of an exchange."""
        with self._lock:
            self.usage = Usage(
                prompt_tokens=self.usage.prompt_tokens + usage.prompt_tokens,
                completion_tokens=self.usage.completion_tokens + usage.completion_tokens,
                cached_tokens=self.usage.cached_tokens + usage.cached_tokens,
                cost_usd=(self.usage.cost_usd or 0.0) + (usage.cost_usd or 0.0),
            )

    def priced(self, usage: Usage | None) -> Usage | None:
        """Add the cost at the model's prices, if they are known and the provider reported tokens but no cost."""
        facts = self.model.facts
        price = facts.usd_per_million_input, facts.usd_per_million_output
        if usage is None or usage.cost_usd is not None or None in price or not usage.prompt_tokens:
            return usage
        return attrs.evolve(usage, cost_usd=self._cost(usage.prompt_tokens, usage.completion_tokens))

    def _cost(self, prompt: int, answer: int) -> float:
        facts = self.model.facts
        price = prompt * (facts.usd_per_million_input or 0.0) + answer * (facts.usd_per_million_output or 0.0)
        return price / 1e6 + facts.usd_per_request

    def worst_case(self, prompt_tokens: int, answer_tokens: int | None) -> Reservation:
        """The maximum tokens and cost of an exchange."""
        facts = self.model.facts
        window = facts.context_tokens or math.inf
        prompt = int(min(prompt_tokens, window))
        bounds = (answer_tokens, self.model.longest_answer, facts.context_tokens)
        answer = min((bound for bound in bounds if bound is not None), default=_LONGEST)
        return Reservation(tokens=prompt + answer, cost_usd=self._cost(prompt, answer))


class Call:
    """Implements ``LLMCall``: each exchange is reserved in the budgets, recorded, and settled once."""

    def __init__(
        self,
        meter: Meter,
        agent: str,
        budget: Budget,
        request: Request,
        most_tokens: int,
        deadline: Deadline,
        native: RecordedExchange | None = None,
    ) -> None:
        self._meter = meter
        self._budget = budget
        self._messages = len(request.messages)
        self._worst = meter.worst_case(most_tokens, request.max_tokens)
        self._under_way = False
        self._lock = threading.RLock()
        self.agent = agent
        self.deadline = deadline
        self.native = native
        self.refusal: BaseException | None = None
        """The last exception raised by :meth:`start_exchange`."""
        self.number = 0
        self.exchange = 0
        self.waited = 0.0

    @property
    def task_id(self) -> str:
        """See the contract."""
        return self._meter.plan.task.spec.id

    @property
    def repeat(self) -> int:
        """See the contract."""
        return self._meter.plan.repeat

    @property
    def attempt_id(self) -> str:
        """See the contract."""
        return self._meter.plan.attempt_id

    def start_exchange(self) -> None:
        """Reserve the worst case of an exchange and record its start, which is on disk when this returns."""
        if self._under_way:
            self.failed(FailedExchange(error="unknown", message="the provider did not report how the exchange ended"))
        try:
            self.deadline.check()
            self._reserve()
            self._enter()
        except BaseException as error:
            self.refusal = error
            raise

    def failed(self, exchange: FailedExchange) -> None:
        """See the contract."""
        usage = self._meter.priced(exchange.usage)
        counted = usage or Usage()
        with self._lock:  # as in `answered`
            if not self._settled(usage):
                return
            self._meter.log.emit(
                LLMFailed(
                    call=self.number,
                    exchange=self.exchange,
                    error=exchange.error,
                    message=exchange.message,
                    status=exchange.status,
                    served_by=exchange.served_by,
                    response_id=exchange.response_id,
                    prompt_tokens=counted.prompt_tokens,
                    completion_tokens=counted.completion_tokens,
                    cached_tokens=counted.cached_tokens,
                    cost_usd=counted.cost_usd,
                )
            )

    def add_wait(self, seconds: float) -> None:
        """See the contract."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"cannot wait {seconds!r} seconds")
        self.waited += seconds
        self._give_back(seconds)

    def redacted(self, value: Any) -> Any:
        """See the contract."""
        return self._meter.files.cleaned(value)

    @contextlib.contextmanager
    def answered(self, completion: Completion) -> Iterator[Completion]:
        """Settle the exchange in progress, and yield its response with the cost, to be recorded inside the block.

        :meth:`abandon` waits until then: otherwise, an attempt could be recorded with the usage but without its event.
        """
        completion = attrs.evolve(completion, usage=self._meter.priced(completion.usage))
        with self._lock:
            if not self._settled(completion.usage):
                raise LLMError("the provider returned a response after reporting a failure")
            yield completion

    def abandon(self, why: str) -> None:
        """End the call without a response. The usage of an exchange in progress is unknown."""
        with contextlib.suppress(Interrupted):  # the attempt is already recorded
            self.failed(FailedExchange(error="unknown", message=why))

    def _reserve(self) -> None:
        """Reserve the worst case in the attempt's budget and in the run's budget."""
        model = self._meter.model
        self._budget.reserve(self._worst, self.deadline)
        try:
            model.budget.reserve(self._worst.cost_usd, self._wait_for_budget)
        except BaseException as error:
            self._budget.settle(self._worst, tokens=0, cost_usd=0.0)
            if isinstance(error, RunBudgetExceededError):
                model.stop.request(error.message)
            raise

    def _wait_for_budget(self, seconds: float) -> None:
        self._give_back(seconds)
        self.deadline.check()

    def _give_back(self, seconds: float) -> None:
        """Exclude a wait from the attempt's time. A program that makes several calls at once does not wait idly."""
        if self.native is None or self._meter.is_only(self):
            self._meter.give_back(seconds)

    def _enter(self) -> None:
        with self._lock:
            try:
                self.number = self.number or self._meter.begin(self)
                if self.native:
                    self.native.call = self.number
                self.exchange += 1
                self._under_way = True
                entry = LLMRequest(
                    call=self.number,
                    exchange=self.exchange,
                    agent=self.agent,
                    messages=self._messages,
                    reserved_usd=self._worst.cost_usd,
                )
                self._meter.log.emit(entry, durable=True)
            except BaseException:
                self._under_way = False
                self._return_rest(0, 0.0)
                raise

    def _settled(self, usage: Usage | None) -> bool:
        """Settle the exchange in progress, with its worst case if ``usage`` is ``None``; False if there is none.

        The caller has the lock.
        """
        if not self._under_way:
            return False
        self._under_way = False
        if usage is None:
            self._return_rest(self._worst.tokens, self._worst.cost_usd)
            return True
        cost = self._worst.cost_usd if usage.cost_usd is None else usage.cost_usd
        self._return_rest(usage.prompt_tokens + usage.completion_tokens, cost)
        self._meter.count(usage)
        if cost > self._worst.cost_usd + 1e-9 and self._meter.model.facts.usd_per_million_input is not None:
            most = f"at the model's prices, it can cost at most {self._worst.cost_usd:.6f} USD"
            message = f"call {self.number} cost {cost:.6f} USD, but {most}"
            self._meter.log.emit(Warning_(message=message))
        return True

    def _return_rest(self, tokens: int, cost_usd: float) -> None:
        self._budget.settle(self._worst, tokens=tokens, cost_usd=cost_usd)
        self._meter.model.budget.settle(self._worst.cost_usd, cost_usd)
