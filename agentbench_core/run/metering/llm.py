"""The model as seen by an agent: requests get the variant's settings, and are metered, timed and recorded.

An agent phase uses :class:`AttemptModels`. In the process that writes the run, they are :class:`MeteredModels`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import attrs

from agentbench_core.errors import AttemptStop, BudgetExceeded, DeadlineExceeded, InputError, LLMError
from agentbench_core.plugin.llm import Model, NativeExchange
from agentbench_core.run.metering.conversation import Conversation
from agentbench_core.run.metering.ledger import Call, Meter
from agentbench_core.run.metering.models import RunModel
from agentbench_core.run.metering.native import RecordedExchange
from agentbench_core.run.metering.tools import StopSignal
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.values.events import LLMResponse
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, ModelFacts, Request, Usage
from agentbench_core.values.record import ModelInfo

_MOST_WITH_MEDIA = 1 << 20
"""Tokens reserved for a request with images or documents, up to the size of the model's context window."""


class AgentModel(Model, Protocol):
    """The model of one agent of an attempt, which may be a program with its own client."""

    def forward(self, request: Request, native: NativeExchange) -> Completion:
        """Forward a request of a program's own client; see ``ProgramContext``."""


class AttemptModels(Protocol):
    """The model calls of one attempt, by all of its agents."""

    @property
    def info(self) -> ModelInfo:
        """The model and its settings."""

    @property
    def facts(self) -> ModelFacts:
        """Facts about the model."""

    @property
    def calls(self) -> int:
        """Number of calls so far."""

    @property
    def usage(self) -> Usage:
        """Tokens and cost so far."""

    @property
    def in_progress(self) -> bool:
        """Whether a call to the provider is in progress."""

    def model(self, agent: str, budget: Budget) -> AgentModel:
        """The model for one agent, which uses up a budget."""

    def close(self) -> None:
        """Refuse further calls, and abandon calls in progress."""


OpenModels = Callable[[AttemptPlan, Recording, Deadline, StopSignal], AttemptModels]
"""Opens the models of an attempt, with the deadline of its agent phase and the signal that stops its agents."""


class MeteredModels:
    """Implements ``AttemptModels`` with a meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    @classmethod
    def opener(cls, model: RunModel) -> OpenModels:
        """Opens attempts that use an open model of the run."""
        return lambda plan, recording, deadline, stop: cls(
            Meter(plan=plan, model=model, deadline=deadline, log=recording.log, files=recording.files, stop=stop)
        )

    @property
    def info(self) -> ModelInfo:
        """See the contract."""
        return self._meter.model.info

    @property
    def facts(self) -> ModelFacts:
        """See the contract."""
        return self._meter.model.facts

    @property
    def calls(self) -> int:
        """See the contract."""
        return self._meter.calls

    @property
    def usage(self) -> Usage:
        """See the contract."""
        return self._meter.usage

    @property
    def in_progress(self) -> bool:
        """See the contract."""
        return self._meter.in_progress

    def model(self, agent: str, budget: Budget) -> MeteredModel:
        """See the contract."""
        return MeteredModel(self._meter, agent, budget)

    def close(self) -> None:
        """See the contract."""
        self._meter.close()


class MeteredModel:
    """Implements ``AgentModel`` for one agent of an attempt."""

    def __init__(self, meter: Meter, agent: str, budget: Budget) -> None:
        self._meter = meter
        self._agent = agent
        self._budget = budget
        self._conversation = Conversation(meter.files, agent)

    @property
    def facts(self) -> ModelFacts:
        """Facts about the model."""
        return self._meter.model.facts

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """Complete one request within ``deadline`` and the attempt's deadline; see the contract."""
        return self._within(request, deadline, None)

    def forward(self, request: Request, native: NativeExchange) -> Completion:
        """Forward a request of a program's own client; see ``ProgramContext``."""
        return self._within(request, None, native)

    def _within(self, request: Request, deadline: Deadline | None, native: NativeExchange | None) -> Completion:
        meter = self._meter
        if isinstance(meter.stop.error, (AttemptStop, LLMError)):
            raise meter.stop.error  # raised again if the agent caught it
        try:
            meter.deadline.check()
            self._budget.check_spend()
            within = meter.deadline.within(math.inf if deadline is None else deadline.remaining())
            # The settings of a forwarded request are in its body.
            made = filled(request, meter.model.info) if native is None else named(request, meter.model.info)
            return self._complete(made, within, native)
        except (AttemptStop, LLMError) as error:
            self._note(error)
            raise

    def _note(self, error: AttemptStop | LLMError) -> None:
        """Record an error that ends the attempt; an agent's own deadline and a sub-agent's budget do not end it."""
        meter = self._meter
        own_share = isinstance(error, BudgetExceeded) and getattr(error.budget, "parent", None) is not None
        own_deadline = isinstance(error, DeadlineExceeded) and not meter.deadline.expired
        if not own_share and not own_deadline:
            meter.stop.set(error)
        if isinstance(error, LLMError) and error.stops_run:
            meter.model.stop.request(str(error))

    def _complete(self, request: Request, deadline: Deadline, native: NativeExchange | None) -> Completion:
        meter = self._meter
        recorded = RecordedExchange(native, meter.files) if native else None
        most = _MOST_WITH_MEDIA if native and native.has_media else self._conversation.most_tokens(request)
        call = Call(meter, self._agent, self._budget, request, most, deadline, recorded)
        try:
            call.start_exchange()
            started = time.monotonic()
            answer = self._ask(request, call)
            seconds = round(time.monotonic() - started, 6)
            with call.answered(answer) as priced:
                if recorded:
                    recorded.close()
                completion = attrs.evolve(priced, native=recorded.file) if recorded else priced
                self._conversation.add(call.number, request, completion)
                meter.log.emit(_response(call, completion, seconds))
        except BaseException as error:
            call.abandon(f"{type(error).__name__}: {error}")
            raise
        finally:
            meter.end(call)
        return completion

    def _ask(self, request: Request, call: Call) -> Completion:
        """Call the provider. Its bugs are infrastructure errors, not the agent's errors."""
        provider = self._meter.model.info.provider
        try:
            completion: object = self._meter.model.llm.complete(request, call)
        except BaseException as error:
            is_own = error is call.refusal or (isinstance(error, AttemptStop) and call.deadline.expired)
            if is_own or isinstance(error, LLMError):
                raise
            raise LLMError(f"the provider {provider!r} raised {type(error).__name__}: {error}") from error
        if not isinstance(completion, Completion):
            raise LLMError(f"the provider {provider!r} returned {completion!r}, which is not a Completion")
        return completion


def _response(call: Call, completion: Completion, seconds: float) -> LLMResponse:
    """The event of a response that took some seconds."""
    usage = completion.usage or Usage()
    return LLMResponse(
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
        duration_sec=seconds,
    )


def named(request: Request, model: ModelInfo) -> Request:
    """A request with the model's name. Raises InputError if it names another model."""
    if request.model not in ("", model.name):
        raise InputError(f"this attempt's model is {model.name!r}: {request.model!r} cannot be used")
    return attrs.evolve(request, model=model.name)


def filled(request: Request, model: ModelInfo) -> Request:
    """A request with the settings of the model where it has none."""
    return attrs.evolve(
        named(request, model),
        max_tokens=model.max_tokens if request.max_tokens is None else request.max_tokens,
        temperature=model.temperature if request.temperature is None else request.temperature,
        top_p=model.top_p if request.top_p is None else request.top_p,
    )
