"""The model as an agent meets it: metered, timed, written down."""

from __future__ import annotations

import threading
import time

import attrs

from agentbench_core.errors import AttemptStop, DeadlineExceeded, LLMError
from agentbench_core.evidence.store import AttemptFiles
from agentbench_core.plugin.contracts import LLM
from agentbench_core.run.attempt_log import AttemptLog
from agentbench_core.run.toolbox import Stop
from agentbench_core.values.events import LLMRequest, LLMResponse
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, Message, Request, Usage
from agentbench_core.values.record import ModelInfo


@attrs.frozen(kw_only=True)
class ConversationRecord:
    """One line of ``agent/conversation.jsonl``: the messages that are new since the line before, and the answer.

    ``since`` says how many messages of the request were in the lines before; 0 when the agent began anew.
    """

    call: int
    since: int
    messages: tuple[Message, ...]
    completion: Completion


class MeteredLLM:
    """Implements ``LLM``: fills in the variant's model settings; counts, times and writes down every call."""

    def __init__(
        self,
        *,
        llm: LLM,
        model: ModelInfo,
        budget: Budget,
        deadline: Deadline,
        log: AttemptLog,
        files: AttemptFiles,
        stop: Stop,
    ) -> None:
        self._llm = llm
        self._model = model
        self._budget = budget
        self._deadline = deadline
        self._log = log
        self._files = files
        self._stop = stop
        self._lock = threading.Lock()
        self._said: tuple[Message, ...] = ()
        self.calls = 0
        self.usage = Usage()

    def complete(self, request: Request, deadline: Deadline) -> Completion:
        """Answer one request within ``deadline`` and the attempt's; see the contract."""
        try:
            self._deadline.check()
            self._budget.check_spend()
            return self._complete(self._filled(request), self._deadline.within(deadline.remaining()))
        except (AttemptStop, LLMError) as error:
            # A deadline that the agent set for this one call is its own affair.
            if self._deadline.expired or not isinstance(error, DeadlineExceeded):
                self._stop.note(error)
            raise

    def _filled(self, request: Request) -> Request:
        model = self._model
        return attrs.evolve(
            request,
            model=request.model or model.name,
            max_tokens=model.max_tokens if request.max_tokens is None else request.max_tokens,
            temperature=model.temperature if request.temperature is None else request.temperature,
            top_p=model.top_p if request.top_p is None else request.top_p,
        )

    def _complete(self, request: Request, deadline: Deadline) -> Completion:
        with self._lock:
            self.calls += 1
            call = self.calls
        self._log.emit(LLMRequest(call=call, messages=len(request.messages)), durable=True)
        started = time.monotonic()
        completion = self._ask(request, deadline)
        took = round(time.monotonic() - started, 6)
        usage = completion.usage
        with self._lock:
            self._write_down(call, request, completion)
            self.usage = Usage(
                prompt_tokens=self.usage.prompt_tokens + usage.prompt_tokens,
                completion_tokens=self.usage.completion_tokens + usage.completion_tokens,
                cached_tokens=self.usage.cached_tokens + usage.cached_tokens,
                cost_usd=self.usage.cost_usd + usage.cost_usd,
            )
        self._budget.spend(tokens=usage.prompt_tokens + usage.completion_tokens, cost_usd=usage.cost_usd)
        self._log.emit(
            LLMResponse(
                call=call,
                finish=completion.finish,
                model=completion.model,
                served_by=completion.served_by,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                cost_usd=usage.cost_usd,
                duration_sec=took,
            )
        )
        return completion

    def _ask(self, request: Request, deadline: Deadline) -> Completion:
        """One call of the provider, whose bugs are infrastructure and not the agent's."""
        try:
            completion: object = self._llm.complete(request, deadline)
        except (AttemptStop, LLMError):
            raise
        except Exception as error:
            raise LLMError(f"the provider {self._model.provider!r} raised {type(error).__name__}: {error}") from error
        if not isinstance(completion, Completion):
            raise LLMError(f"the provider {self._model.provider!r} returned {completion!r}, which is no Completion")
        return completion

    def _write_down(self, call: int, request: Request, completion: Completion) -> None:
        since = len(self._said) if request.messages[: len(self._said)] == self._said else 0
        line = ConversationRecord(call=call, since=since, messages=request.messages[since:], completion=completion)
        self._files.append_json("agent/conversation.jsonl", line)
        self._said = request.messages
