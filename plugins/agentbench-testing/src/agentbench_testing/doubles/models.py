"""Scripted responses of a model, for tests of agents and of everything else that calls a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import attrs

from agentbench_core import (
    AttemptStop,
    Completion,
    Deadline,
    ExpectedCalls,
    FailedExchange,
    LLMCall,
    LLMError,
    Message,
    ModelFacts,
    NativeExchange,
    Request,
    ToolCall,
    Usage,
)

Answer = Completion | str | ToolCall | BaseException | Callable[[Request], Any]
"""A completion, or a shorthand: text, one tool call, an exception to raise, or a function of the request."""
_BYTES_PER_TOKEN = 4


def says(text: str, **more: Any) -> Completion:
    """A text response; ``more`` are fields of the completion."""
    return Completion(message=Message(role="assistant", content=text), **more)


def calls(*wanted: ToolCall, text: str = "", **more: Any) -> Completion:
    """A response with tool calls. Ids may be omitted, since :class:`Script` generates missing ones."""
    return Completion(
        message=Message(role="assistant", content=text, tool_calls=wanted), **{"finish": "tool_calls", **more}
    )


def tokens_of(request: Request) -> int:
    """Number of tokens that a scripted model counts for a request: one for every four bytes."""
    read = sum(message.size for message in request.messages) + sum(tool.size for tool in request.tools)
    return read // _BYTES_PER_TOKEN


class Script:
    """Responses in order for any caller, or one function for all requests. Thread-safe.

    Missing parts of a response are filled in: ids of calls, usage, the model. Requests are recorded.
    """

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], Any]) -> None:
        self.requests: list[Request] = []  #: the requests so far, in order
        self._always = answers if callable(answers) else None
        self._answers = iter(() if callable(answers) else answers)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Completion:
        """Return the next response, or raise it if it is an exception. Raises LLMError if no response is left."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            result = self._always or next(self._answers, None)
        if result is None:
            raise LLMError(f"the script has no response for request {number}")
        return _completed(result, request, number)


def _completed(answer: object, request: Request, number: int) -> Completion:
    while callable(answer):
        answer = answer(request)
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, str):
        answer = says(answer)
    elif isinstance(answer, ToolCall):
        answer = calls(answer)
    if not isinstance(answer, Completion):
        raise TypeError(f"{answer!r} is not a model response")
    message = attrs.evolve(
        answer.message,
        tool_calls=tuple(
            call if call.id else attrs.evolve(call, id=f"call-{number}-{index}")
            for index, call in enumerate(answer.message.tool_calls, start=1)
        ),
    )
    usage = answer.usage
    if usage is None or usage == Usage():
        usage = Usage(prompt_tokens=tokens_of(request), completion_tokens=message.size // _BYTES_PER_TOKEN)
    return attrs.evolve(answer, message=message, usage=usage, model=answer.model or request.model or "scripted")


class ScriptedLLM:
    """Implements ``LLM`` with a script: no server, no waiting, no failures except scripted ones."""

    def __init__(
        self, answers: Iterable[Answer] | Callable[[Request], Any], *, facts: ModelFacts | None = None
    ) -> None:
        self.facts = facts or ModelFacts()  #: facts about the model, for `preflight`
        self.script = Script(answers)  #: the responses
        self.closed = False  #: whether `close` was called

    @property
    def requests(self) -> Sequence[Request]:
        """The requests, in order."""
        return self.script.requests

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """The facts it was created with."""
        expected.deadline.check()
        return self.facts

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """The script's next response; an LLMError is first reported as one failed exchange at no cost, then raised."""
        if self.closed:
            raise LLMError("the scripted model is closed")
        call.deadline.check()
        try:
            return self.script.answer(request)
        except LLMError as error:
            call.failed(FailedExchange(error="scripted", message=error.message, usage=Usage(cost_usd=0.0)))
            raise

    def close(self) -> None:
        """Refuse further requests."""
        self.closed = True


@attrs.frozen(kw_only=True)
class Told:
    """One report from a provider to its ``LLMCall``."""

    what: Literal["failed", "again", "waiting"]  #: the method that was called
    exchange: FailedExchange | None = None  #: the failed exchange
    seconds: float = 0.0  #: reported wait in seconds
    at: float = attrs.field(factory=time.monotonic)  #: time of the report, by the monotonic clock


class CallDouble:
    """Implements ``LLMCall``: records the provider's reports, and adds waits to the deadline like the harness.

    ``listen`` is called with each report, in the provider's thread. ``exchanges`` is the maximum number of exchanges of
    the call; ``start_exchange`` raises ``refusal`` for more.
    """

    def __init__(
        self,
        *,
        deadline: Deadline | None = None,
        task_id: str = "task",
        repeat: int = 1,
        attempt_id: str = "",
        agent: str = "agent",
        exchanges: int | None = None,
        refusal: AttemptStop | None = None,
        listen: Callable[[Told], None] = lambda _: None,
        as_written: Callable[[Any], Any] = lambda value: value,
        native: NativeExchange | None = None,
    ) -> None:
        self.deadline = deadline or Deadline(60.0)  #: see the contract
        self.task_id = task_id  #: see the contract
        self.repeat = repeat  #: see the contract
        self.attempt_id = attempt_id or f"{task_id}-{repeat}"  #: see the contract
        self.agent = agent  #: see the contract
        self.native = native  #: see the contract
        self.told: list[Told] = []  #: reports of the provider, in order
        self._most = exchanges
        self._refusal = refusal or AttemptStop("no further exchange may be sent")
        self._listen = listen
        self._as_written = as_written

    @property
    def failures(self) -> Sequence[FailedExchange]:
        """The failed exchanges."""
        return [shown.exchange for shown in self.told if shown.exchange is not None]

    @property
    def exchanges(self) -> int:
        """Number of exchanges, including the first."""
        return 1 + sum(shown.what == "again" for shown in self.told)

    @property
    def waited(self) -> float:
        """Total of the reported waits in seconds."""
        return sum(shown.seconds for shown in self.told)

    def failed(self, exchange: FailedExchange) -> None:
        """See the contract."""
        self._tell(Told(what="failed", exchange=exchange))

    def start_exchange(self) -> None:
        """See the contract."""
        self.deadline.check()
        if self._most is not None and self.exchanges >= self._most:
            raise self._refusal
        self._tell(Told(what="again"))

    def add_wait(self, seconds: float) -> None:
        """See the contract."""
        self._tell(Told(what="waiting", seconds=seconds))
        self.deadline.extend(seconds)

    def redacted(self, value: Any) -> Any:
        """See the contract."""
        return self._as_written(value)

    def _tell(self, told: Told) -> None:
        self.told.append(told)
        self._listen(told)
