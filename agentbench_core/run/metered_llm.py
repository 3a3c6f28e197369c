"""The model as an agent meets it: filled in, metered, paid for, timed, written down."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import attrs

from agentbench_core.errors import AttemptStop, BudgetExceeded, DeadlineExceeded, LLMError
from agentbench_core.evidence import layout
from agentbench_core.evidence.store import AttemptFiles
from agentbench_core.run.attempt_log import AttemptLog
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.purse import PurseEmptyError
from agentbench_core.run.run_model import RunModel
from agentbench_core.run.toolbox import Stop
from agentbench_core.values.conversation import ConversationRecord
from agentbench_core.values.events import LLMFailed, LLMRequest, LLMResponse
from agentbench_core.values.limits import Budget, Deadline, Held
from agentbench_core.values.messages import (
    Completion,
    FailedExchange,
    Message,
    ModelFacts,
    Request,
    ToolSpec,
    Usage,
)


@attrs.define(kw_only=True)
class Meter:
    """What all agents of an attempt share: the run's model, the attempt's time, and the count of what was used."""

    plan: AttemptPlan
    model: RunModel
    deadline: Deadline
    log: AttemptLog
    files: AttemptFiles
    stop: Stop
    calls: int = 0
    usage: Usage = Usage()
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def begin(self) -> int:
        """The number of a new call, from 1."""
        with self._lock:
            self.calls += 1
            return self.calls

    def count(self, usage: Usage) -> None:
        """Take in what an exchange has used."""
        with self._lock:
            self.usage = Usage(
                prompt_tokens=self.usage.prompt_tokens + usage.prompt_tokens,
                completion_tokens=self.usage.completion_tokens + usage.completion_tokens,
                cached_tokens=self.usage.cached_tokens + usage.cached_tokens,
                cost_usd=self.usage.cost_usd + usage.cost_usd,
            )

    def worst(self, prompt_tokens: int, answer_tokens: int | None) -> Held:
        """The most that an exchange can use."""
        facts = self.model.facts
        window = facts.context_tokens or math.inf
        prompt = int(min(prompt_tokens, window))
        answer = int(min(answer_tokens if answer_tokens is not None else window, window, 1 << 24))
        price = prompt * (facts.usd_per_million_input or 0.0) + answer * (facts.usd_per_million_output or 0.0)
        return Held(tokens=prompt + answer, cost_usd=price / 1e6 + facts.usd_per_request)


class MeteredModel:
    """Implements ``Model`` for one agent of an attempt."""

    def __init__(self, meter: Meter, agent: str, budget: Budget) -> None:
        self._meter = meter
        self._agent = agent
        self._budget = budget
        self._lock = threading.Lock()
        self._said: tuple[Message, ...] = ()
        self._tools: tuple[ToolSpec, ...] | None = None
        self._read = 0
        """Tokens of ``_said`` and ``_tools``, as the server counted them."""

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return self._meter.model.facts

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """Answer one request within ``deadline`` and the attempt's; see the contract."""
        meter = self._meter
        try:
            meter.deadline.check()
            self._budget.check_spend()
            within = meter.deadline.within(math.inf if deadline is None else deadline.remaining())
            return self._complete(self._filled(request), within)
        except (AttemptStop, LLMError) as error:
            self._note(error)
            raise

    def _note(self, error: AttemptStop | LLMError) -> None:
        """What ends the attempt. Not that: a deadline that the agent set itself, the share that a sub-agent got."""
        meter = self._meter
        own_share = isinstance(error, BudgetExceeded) and getattr(error.whose, "parent", None) is not None
        own_deadline = isinstance(error, DeadlineExceeded) and not meter.deadline.expired
        if not own_share and not own_deadline:
            meter.stop.note(error)
        if isinstance(error, LLMError) and error.stops_run:
            meter.model.halt.because(str(error))

    def _filled(self, request: Request) -> Request:
        model = self._meter.model.info
        return attrs.evolve(
            request,
            model=request.model or model.name,
            max_tokens=model.max_tokens if request.max_tokens is None else request.max_tokens,
            temperature=model.temperature if request.temperature is None else request.temperature,
            top_p=model.top_p if request.top_p is None else request.top_p,
        )

    def _complete(self, request: Request, deadline: Deadline) -> Completion:
        meter = self._meter
        call = _Call(meter, self._agent, self._budget, request, self._most_tokens(request), deadline)
        call.again()
        started = time.monotonic()
        try:
            completion = self._ask(request, call)
        except BaseException as error:
            call.abandon(error)
            raise
        took = round(time.monotonic() - started, 6)
        call.answered(completion)
        with self._lock:
            self._write_down(call.number, request, completion)
        usage = completion.usage
        meter.log.emit(
            LLMResponse(
                call=call.number,
                exchange=call.exchange,
                finish=completion.finish,
                model=completion.model,
                served_by=completion.served_by,
                response_id=completion.response_id,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                cost_usd=usage.cost_usd,
                repaired=completion.repaired,
                waited_sec=round(call.waited, 6),
                duration_sec=took,
            )
        )
        return completion

    def _ask(self, request: Request, call: _Call) -> Completion:
        """One call of the provider, whose bugs are infrastructure and not the agent's."""
        provider = self._meter.model.info.provider
        try:
            completion: object = self._meter.model.llm.complete(request, call)
        except (AttemptStop, LLMError):
            raise
        except Exception as error:
            raise LLMError(f"the provider {provider!r} raised {type(error).__name__}: {error}") from error
        if not isinstance(completion, Completion):
            raise LLMError(f"the provider {provider!r} returned {completion!r}, which is no Completion")
        return completion

    def _most_tokens(self, request: Request) -> int:
        """The most tokens that the request can be: what the server counted last time, and each new byte as one."""
        with self._lock:
            known = len(self._said)
            if self._read and self._tools == request.tools and request.messages[:known] == self._said:
                return self._read + sum(message.size for message in request.messages[known:])
        return sum(tool.size for tool in request.tools) + sum(message.size for message in request.messages)

    def _write_down(self, call: int, request: Request, completion: Completion) -> None:
        since = len(self._said) if request.messages[: len(self._said)] == self._said else 0
        line = ConversationRecord(
            call=call,
            agent=self._agent,
            model=request.model,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            tools=None if request.tools == self._tools else request.tools,
            since=since,
            messages=request.messages[since:],
            completion=completion,
        )
        self._meter.files.append_json(layout.CONVERSATION, line)
        self._said, self._tools = request.messages, request.tools
        self._read = completion.usage.prompt_tokens


class _Call:
    """Implements ``LLMCall``: each exchange is held back from the budgets, entered, and settled."""

    def __init__(
        self, meter: Meter, agent: str, budget: Budget, request: Request, most_tokens: int, deadline: Deadline
    ) -> None:
        self._meter = meter
        self._agent = agent
        self._budget = budget
        self._messages = len(request.messages)
        self._worst = meter.worst(most_tokens, request.max_tokens)
        self._under_way = False
        self.deadline = deadline
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

    def again(self) -> None:
        """Enter one more exchange, or the first; on disk when this returns."""
        meter, worst = self._meter, self._worst
        if self._under_way:
            self.failed(FailedExchange(error="unknown", message="the provider did not say how it ended"))
        self.deadline.check()
        self._budget.hold(worst)
        try:
            self._hold_from_purse()
        except BaseException:
            self._budget.settle(worst, tokens=0, cost_usd=0.0)
            raise
        self.number = self.number or meter.begin()
        self.exchange += 1
        self._under_way = True
        meter.log.emit(
            LLMRequest(
                call=self.number,
                exchange=self.exchange,
                agent=self._agent,
                messages=self._messages,
                reserved_usd=worst.cost_usd,
            ),
            durable=True,
        )

    def failed(self, exchange: FailedExchange) -> None:
        """See the contract."""
        if not self._under_way:
            return
        usage = exchange.usage
        self._settle(usage or Usage(), self._worst.cost_usd if usage is None else usage.cost_usd)
        counted = usage or Usage()
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
                cost_usd=None if usage is None else usage.cost_usd,
            )
        )

    def waiting(self, seconds: float) -> None:
        """See the contract."""
        self.waited += seconds
        self.deadline.extend(seconds)

    def as_written(self, value: Any) -> Any:
        """See the contract."""
        return self._meter.files.cleaned(value)

    def answered(self, completion: Completion) -> None:
        """The exchange under way gave the answer."""
        self._settle(completion.usage, completion.usage.cost_usd)

    def abandon(self, error: BaseException) -> None:
        """No answer comes any more; nobody knows what became of an exchange that is still under way."""
        self.failed(FailedExchange(error=type(error).__name__, message=str(error)))

    def _hold_from_purse(self) -> None:
        model = self._meter.model
        began = time.monotonic()
        try:
            model.purse.hold(self._worst.cost_usd, self.deadline)
        except PurseEmptyError as error:
            model.halt.because(error.message)
            raise
        finally:
            self.waiting(time.monotonic() - began)

    def _settle(self, usage: Usage, cost_usd: float) -> None:
        self._under_way = False
        self._budget.settle(self._worst, tokens=usage.prompt_tokens + usage.completion_tokens, cost_usd=cost_usd)
        self._meter.model.purse.settle(self._worst.cost_usd, cost_usd)
        self._meter.count(usage)
