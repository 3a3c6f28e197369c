"""What a model answers, written down beforehand: for tests of agents, and of whatever else calls a model."""

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
    Request,
    ToolCall,
    Usage,
)

Answer = Completion | str | ToolCall | BaseException | Callable[[Request], Any]
"""A completion; or what stands for one: words, one tool call, what is raised, what makes one of these of a request."""
_BYTES_PER_TOKEN = 4


def says(text: str, **more: Any) -> Completion:
    """An answer in words; ``more`` are fields of the completion."""
    return Completion(message=Message(role="assistant", content=text), **more)


def calls(*wanted: ToolCall, text: str = "", **more: Any) -> Completion:
    """An answer that calls tools. Ids that are left out are filled in when it is given."""
    return Completion(
        message=Message(role="assistant", content=text, tool_calls=wanted), **{"finish": "tool_calls", **more}
    )


def tokens_of(request: Request) -> int:
    """How many tokens a scripted model reads in a request: one for four bytes."""
    read = sum(message.size for message in request.messages) + sum(tool.size for tool in request.tools)
    return read // _BYTES_PER_TOKEN


class Script:
    """Answers in order, whoever asks; or one function that answers everything. Thread-safe.

    What an answer leaves out is filled in: ids of calls, usage, the model. Keeps the requests.
    """

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], Any]) -> None:
        self.requests: list[Request] = []
        self._always = answers if callable(answers) else None
        self._answers = iter(() if callable(answers) else answers)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Completion:
        """The next answer. Raises what stands in its place, and LLMError when none is left."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            found = self._always or next(self._answers, None)
        if found is None:
            raise LLMError(f"the script has no answer to request {number}")
        return _completed(found, request, number)


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
        raise TypeError(f"{answer!r} is no answer of a model")
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
    """Implements ``LLM`` by a script: no server, no waiting, nothing that fails unless the script says so."""

    def __init__(
        self, answers: Iterable[Answer] | Callable[[Request], Any], *, facts: ModelFacts | None = None
    ) -> None:
        self.facts = facts or ModelFacts()
        self.script = Script(answers)
        self.closed = False

    @property
    def requests(self) -> Sequence[Request]:
        """What it was asked, in order."""
        return self.script.requests

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """The facts that it was given."""
        expected.deadline.check()
        return self.facts

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """The script's next answer; an LLMError in it is one exchange that failed, and cost nothing."""
        if self.closed:
            raise LLMError("the scripted model is closed")
        call.deadline.check()
        try:
            return self.script.answer(request)
        except LLMError as error:
            call.failed(FailedExchange(error="scripted", message=error.message, usage=Usage(cost_usd=0.0)))
            raise

    def close(self) -> None:
        """Answer nothing any more."""
        self.closed = True


@attrs.frozen(kw_only=True)
class Told:
    """One thing that a provider has told its call."""

    what: Literal["failed", "again", "waiting"]
    exchange: FailedExchange | None = None
    seconds: float = 0.0
    at: float = attrs.field(factory=time.monotonic)


class CallDouble:
    """Implements ``LLMCall``: remembers what the provider tells, and gives back time as the harness does.

    ``listen`` is called with each thing that is told, in the provider's thread. ``exchanges`` is how many of them the
    call may have; ``again`` raises ``refusal`` for more.
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
    ) -> None:
        self.deadline = deadline or Deadline(60.0)
        self.task_id = task_id
        self.repeat = repeat
        self.attempt_id = attempt_id or f"{task_id}-{repeat}"
        self.agent = agent
        self.told: list[Told] = []
        self._most = exchanges
        self._refusal = refusal or AttemptStop("no further exchange may be sent")
        self._listen = listen
        self._as_written = as_written

    @property
    def failures(self) -> Sequence[FailedExchange]:
        """The exchanges that failed."""
        return [told.exchange for told in self.told if told.exchange is not None]

    @property
    def exchanges(self) -> int:
        """Those that were entered, the first included."""
        return 1 + sum(told.what == "again" for told in self.told)

    @property
    def waited(self) -> float:
        """Seconds that were told."""
        return sum(told.seconds for told in self.told)

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
