"""The state of one attempt at the gateway: its secret, its model calls and its tools."""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Mapping, Sequence

import attrs

from agentbench_bridge.gateway.exchange import ForwardedExchange
from agentbench_bridge.gateway.notes import Notes
from agentbench_bridge.gateway.observed import ObservedTools
from agentbench_bridge.gateway.spool import Answer, Failure, Spool
from agentbench_bridge.protocols import Admitted, Limits, ModelMap, RefusedError, admit, reader
from agentbench_core import (
    AgentBenchError,
    AgentTurnStarted,
    AttemptContext,
    AttemptStop,
    InputError,
    LLMError,
    ProgramContext,
)

_PREFIX = "sk-agentbench-"
MOST_REQUESTS = 10_000
"""Maximum number of requests of an attempt."""
MOST_BYTES = 2 << 30
"""Maximum size of all requests of an attempt."""
_COUNTING = {"messages/count_tokens"}
"""Paths of requests that only count tokens."""


@attrs.frozen(kw_only=True)
class Asked:
    """A model request as received from a client."""

    path: str  #: path and query
    headers: Mapping[str, str]  #: lowercase names
    body: bytes  #: unparsed


class BridgedAttempt:
    """One attempt whose program sends its model requests to the gateway.

    Args:
        context: the attempt's context, with ``program``.
        models: the model that the program gets for each name.
        limits: settings of the variant's model.
        presented: model names for ``GET /v1/models``.
    """

    def __init__(
        self, *, context: AttemptContext, models: ModelMap, limits: Limits, presented: Sequence[str] = ()
    ) -> None:
        if context.program is None:
            raise InputError(
                "this agent's context has no program", remedy="Register the agent with the `needs_sandbox` capability."
            )
        self.secret = _PREFIX + secrets.token_urlsafe(32)  #: the "API key" of the program
        self.presented = tuple(presented)  #: model names for `GET /v1/models`
        self.notes = Notes(context)  #: warnings and labels
        self.spool = Spool()  #: long answers
        self._program: ProgramContext = context.program
        self._models = models
        self._limits = limits
        self._tools = ObservedTools(self._program.observe)
        self._stopped: AgentBenchError | None = None
        self._stripped: set[str] = set()
        self._log = context.log
        self.turns = 0  #: number of accepted requests for a completion
        self._requests = 0
        self._bytes = 0
        self._running = 0
        self._idle = threading.Condition()

    @property
    def stopped(self) -> AgentBenchError | None:
        """Why every further request is refused, such as a limit that is used up; ``None`` if requests are accepted."""
        return self._stopped

    def accepts(self, credentials: Sequence[str]) -> bool:
        """Whether one of the credentials is the attempt's secret; compared in constant time."""
        expected = self.secret.encode()
        found = [secrets.compare_digest(text.encode(errors="replace"), expected) for text in credentials]
        return any(found)

    def refusal(self) -> Failure | None:
        """The failure of every request after the attempt was stopped. Clients do not retry a status 400."""
        if self._stopped is None:
            return None
        if isinstance(self._stopped, AttemptStop):
            return _invalid(f"the attempt is over: {self._stopped.message}; do not retry")
        return _invalid("the attempt is over: the model provider failed; do not retry")

    def forward(self, asked: Asked, answer: Answer) -> None:
        """Forward a request and write its answer. Runs in its own thread, and raises nothing."""
        with self._idle:
            self._running += 1
            others = self._running > 1
        failure: Failure | None = _internal()
        try:
            failure = self._forward(asked, answer, keep_results=others)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
            answer.end(failure)

    def _forward(self, asked: Asked, answer: Answer, *, keep_results: bool) -> Failure | None:
        try:
            if refusal := self.refusal() or self._exhausted(len(asked.body)):
                return refusal
            self._exchange(asked, answer, keep_results)
            if not answer.status:  # the provider did not accept the key of the host, which does not end the attempt
                return Failure(status=502, kind="api_error", message="the model provider did not answer")
        except RefusedError as error:
            return self._refused(error)
        except AttemptStop as error:
            self._stopped = self._stopped or error
            return self.refusal()
        except LLMError as error:
            self._stopped = self._stopped or error
            return Failure(status=502, kind="api_error", message="the model provider failed")
        except InputError as error:
            return _invalid(error.message)
        except Exception:  # noqa: BLE001 - the client gets no details
            self.notes.warn("gateway error", f"the gateway failed:\n{traceback.format_exc()}")
            return _internal()
        return None

    def _exhausted(self, size: int) -> Failure | None:
        """The failure of a request after a program has sent too many: even free requests must not fill the disk."""
        with self._idle:
            self._requests += 1
            self._bytes += size
            if self._requests <= MOST_REQUESTS and self._bytes <= MOST_BYTES:
                return None
        self.notes.label(
            "request_refused", f"the program sent more than {MOST_REQUESTS} requests or {MOST_BYTES >> 20} MiB"
        )
        return _invalid(f"the limit of {MOST_REQUESTS} requests or {MOST_BYTES >> 20} MiB per attempt was exceeded")

    def _exchange(self, asked: Asked, answer: Answer, keep_results: bool) -> None:
        admitted = admit(asked.path, asked.headers, asked.body, models=self._models, limits=self._limits)
        self._note_stripped(admitted.stripped)
        self._tools.requested(admitted.request, keep=keep_results)
        self._turn(admitted)
        exchange = ForwardedExchange(admitted, reader(admitted), answer)
        completion = self._program.forward(admitted.request, exchange)
        try:
            self._tools.answered(completion)
        except AttemptStop as error:  # concerns later requests only: this answer is complete
            self._stopped = self._stopped or error

    def _turn(self, admitted: Admitted) -> None:
        """Record a turn for each request that generates an answer."""
        if admitted.path in _COUNTING:
            return
        with self._idle:
            self.turns += 1
            self._log.emit(AgentTurnStarted(turn=self.turns))

    def _refused(self, error: RefusedError) -> Failure:
        label = "provider_tool_refused" if error.hosted_tool else "request_refused"
        reasons = "; ".join(error.reasons)
        self.notes.warn(label, f"{label}: {reasons}")
        self.notes.label(label, reasons)
        return _invalid(f"the request was rejected: {reasons}"[:4000])

    def _note_stripped(self, stripped: Sequence[str]) -> None:
        for text in stripped:
            if text not in self._stripped and len(self._stripped) < 1000:
                self._stripped.add(text)
                self.notes.warn("changed request", f"the program's requests were changed: {text}")

    def drain(self, seconds: float) -> bool:
        """Wait for calls in progress at the provider. Returns whether all have ended."""
        end = time.monotonic() + seconds
        with self._idle:
            while self._running and (left := end - time.monotonic()) > 0:
                self._idle.wait(left)
            return not self._running

    def close(self) -> None:
        """Finish open tool calls, and delete stored answers. Idempotent."""
        self._tools.close()
        self.notes.close()
        self.spool.close()


def _invalid(message: str) -> Failure:
    return Failure(status=400, kind="invalid_request_error", message=message)


def _internal() -> Failure:
    return Failure(status=500, kind="api_error", message="the gateway failed; see the run's events for the reason")
