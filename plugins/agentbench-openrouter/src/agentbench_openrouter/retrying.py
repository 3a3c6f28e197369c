"""Retries: which failures are retried, how often, and after how long. Every exchange is reported to the harness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import attrs
import tenacity

from agentbench_core import AttemptStop, Completion, Deadline, FailedExchange, LLMCall, LLMError, Usage, quantity
from agentbench_openrouter.breaker import Breaker
from agentbench_openrouter.failures import Blame, Failure, Retry
from agentbench_openrouter.limiter import Limiter
from agentbench_openrouter.timing import Timing

BASE_SEC = 1.0
CAP_SEC = 60.0
_AT_MOST = {
    Retry.NEVER: 0,
    Retry.ONCE: 1,
    Retry.SHORTER: 1,
    Retry.POLICY: 2,
    Retry.EMPTY: 2,
    Retry.UNREACHABLE: math.inf,
}
"""Maximum retries by kind of failure; other kinds are limited only by ``max_exchanges``."""

Send = Callable[[], Completion | Failure]


@attrs.frozen(kw_only=True)
class Retrying:
    """Retries for calls to one provider. Thread-safe."""

    max_exchanges: int
    where: str
    """The server, for messages."""
    timing: Timing
    breaker: Breaker
    limiter: Limiter

    def complete(self, send: Send, call: LLMCall, total: Deadline) -> Completion:
        """Send until there is a response, or retrying is pointless.

        Args:
            send: runs one exchange.
            call: the harness's call.
            total: deadline for all exchanges, on the clock of ``timing``.

        Raises:
            LLMError: no response.
            AttemptStop: the call's deadline has passed.
        """
        return _Call(rules=self, send=send, call=call, total=total).complete()


@attrs.define(kw_only=True)
class _Call:
    rules: Retrying
    send: Send
    call: LLMCall
    total: Deadline
    exchanges: int = 0
    tried: Counter[Retry] = attrs.field(factory=Counter)
    """Number of failures by kind."""
    stale: bool = False
    duration: float = 0.0
    """Duration of the last exchange in seconds."""

    def complete(self) -> Completion:
        timing = self.rules.timing
        again = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda result: isinstance(result, Failure)),
            wait=self._wait,
            stop=self._must_stop,
            before_sleep=self._before_sleep,
            sleep=lambda seconds: timing.sleep(float(seconds), self.call.deadline),
            retry_error_callback=self._give_up,
        )
        result = again(self._exchange)
        assert isinstance(result, Completion), "every failure must be retried or end the call"
        return result

    def _exchange(self) -> Completion | Failure:
        result = self._once()
        if isinstance(result, Failure) and result.stale and not self.stale:
            # The idle connection was closed. The server may have seen the request anyway.
            self.stale = True
            self.call.failed(result.exchange)
            result = self._once(free=True)
        return result

    def _share(self, result: Completion | Failure) -> None:
        """Apply the consequences of the result for other calls, while this call still holds its slot."""
        limiter = self.rules.limiter
        if isinstance(result, Completion):
            self._succeeded()
            if self.exchanges == 1:
                limiter.clean()
            return
        if result.stale:
            return
        if result.hint is not None:
            limiter.pause(result.hint)
        if result.retry is Retry.RATE_LIMIT:
            limiter.overloaded()
        if result.outage or result.retry is Retry.TRANSIENT:
            limiter.unhealthy()

    def _succeeded(self) -> None:
        self.rules.breaker.succeeded()
        self.rules.limiter.answered()

    def _once(self, *, free: bool = False) -> Completion | Failure:
        """Run one exchange. With ``free``, it does not count toward ``max_exchanges``.

        The exchange is reported before it gets a slot, because reporting may wait for budget that is reserved by other
        calls, which may themselves be waiting for a slot.
        """
        entered, sent = self.exchanges == 0, False
        try:
            self._check()
            if not entered:
                self.call.start_exchange()
                entered = True
            with self.rules.limiter.slot(self.call, self.total):
                self._check()
                self.exchanges += not free
                sent = True
                began = self.rules.timing.clock()
                result = self.send()
                self.duration = self.rules.timing.clock() - began
                self._share(result)
        except (AttemptStop, LLMError) as error:
            if entered and not sent:
                self.call.failed(FailedExchange(error="not_sent", message=error.message, usage=Usage(cost_usd=0.0)))
            raise
        return result

    def _check(self) -> None:
        self.call.deadline.check()
        self.rules.breaker.check()

    def _wait(self, state: tenacity.RetryCallState) -> float:
        failure, timing = _failure(state), self.rules.timing
        if failure.retry is Retry.SHORTER:
            return 0.0
        if failure.hint is not None:
            return failure.hint + timing.uniform(0.0, 1.0)
        return timing.uniform(0.0, min(CAP_SEC, BASE_SEC * 2.0 ** (state.attempt_number - 1)))

    def _must_stop(self, state: tenacity.RetryCallState) -> bool:
        kind = _failure(state).retry
        self.tried[kind] += 1
        if self.call.deadline.expired:  # an exchange ended by the deadline does not extend it
            return True
        often = self.tried[kind] > _AT_MOST.get(kind, self.rules.max_exchanges)
        most, sent = self.rules.max_exchanges, self.exchanges - self.tried[Retry.UNREACHABLE]
        return often or most == 1 or sent >= most or state.upcoming_sleep >= self.total.remaining()

    def _before_sleep(self, state: tenacity.RetryCallState) -> None:
        self.call.failed(_failure(state).exchange)
        for seconds in (self.duration, state.upcoming_sleep):
            if seconds > 0:
                self.call.add_wait(seconds)

    def _give_up(self, state: tenacity.RetryCallState) -> Completion:
        failure = _failure(state)
        if failure.outcome is not None:
            self._succeeded()
            return failure.outcome
        self.call.failed(failure.exchange)
        self.call.deadline.check()
        if failure.outage:
            self.rules.limiter.gave_up()
        message = self._text(failure, state.upcoming_sleep)
        self.rules.breaker.failed(failure, message)
        self.rules.breaker.check()
        raise LLMError(message, remedy=failure.remedy, stops_run=failure.blame is Blame.STOPS_RUN)

    def _text(self, failure: Failure, delay: float) -> str:
        status = "" if failure.status is None else f" {failure.status}"
        text = f"{self.rules.where}: {failure.error}{status}: {failure.message or 'no message'}"
        if failure.retry in (Retry.NEVER, Retry.ONCE):
            return text
        late = delay >= self.total.remaining()
        why = (
            f"waiting another {delay:.0f} s would exceed the time limit"
            if late
            else f"after {quantity(self.exchanges, 'exchange')}"
        )
        return f"{text} ({why})"


def _failure(state: tenacity.RetryCallState) -> Failure:
    assert state.outcome is not None, "tenacity must call this only after an exchange"
    failure: Failure = state.outcome.result()
    return failure
