"""The tools and the model as an agent meets them: metered, timed, written down."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import (
    AgentBenchError,
    AttemptStop,
    DeadlineExceeded,
    InputError,
    LLMError,
    SandboxError,
    ToolError,
    did_you_mean,
)
from agentbench_core.evidence import layout
from agentbench_core.evidence.store import AttemptFiles
from agentbench_core.plugin.contracts import LLM, EventLog, Sandbox, Tool, ToolContext, Workspace
from agentbench_core.run.attempt_log import AttemptLog
from agentbench_core.values.events import (
    LLMRequest,
    LLMResponse,
    PatchApplied,
    ToolCallFinished,
    ToolCallStarted,
    Warning_,
)
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, Message, Request, ToolCall, ToolResult, ToolSpec, Usage
from agentbench_core.values.record import ModelInfo


class Stop:
    """The first thing that ended the agent from outside; it counts even if the agent swallowed it."""

    def __init__(self) -> None:
        self.error: AgentBenchError | None = None

    def note(self, error: AgentBenchError) -> None:
        """Keep the first one."""
        self.error = self.error or error


@attrs.define(kw_only=True)
class MeteredToolbox:
    """Implements ``Toolbox``: one step per call, each with its own deadline, events and evidence."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    editable: Callable[[str], bool]
    budget: Budget
    deadline: Deadline
    tool_timeout_sec: float
    log: EventLog
    files: AttemptFiles
    stop: Stop
    sandbox: Sandbox | None = None
    """Set once it is started."""
    _inside: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def busy(self) -> bool:
        """Whether a call is in progress: then a closed descriptor of the workspace could become another attempt's."""
        return self._inside > 0

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What is on offer, sorted by name."""
        return tuple(tool.spec for _, tool in sorted(self.tools.items()))

    def call(self, call: ToolCall) -> ToolResult:
        """Call a tool; see the contract."""
        with self._lock:
            self._inside += 1
        try:
            return self._call(call)
        finally:
            with self._lock:
                self._inside -= 1

    def _call(self, call: ToolCall) -> ToolResult:
        try:
            self.deadline.check()
            step = self.budget.spend_step()
        except AttemptStop as error:
            self.stop.note(error)
            raise
        self.log.emit(ToolCallStarted(step=step, tool=call.tool))
        started = time.monotonic()
        stopped: AgentBenchError | None = None
        result = ToolResult.failure("stopped", "the call was stopped from outside")
        try:
            try:
                result = self._answer(call, step)
            finally:  # a call that the end overtook is answered by that end, whatever became of it
                self.deadline.check()
        except (AttemptStop, SandboxError) as error:
            stopped = error
        took = round(time.monotonic() - started, 6)
        self.files.append_json("agent/tool_calls.jsonl", ToolCallRecord(step=step, call=call, result=result))
        self.log.emit(
            ToolCallFinished(step=step, tool=call.tool, ok=result.ok, error_type=result.error_type, duration_sec=took)
        )
        if stopped:
            self.stop.note(stopped)
            raise stopped
        return result

    def _answer(self, call: ToolCall, step: int) -> ToolResult:
        tool = self.tools.get(call.tool)
        if tool is None:
            hint = did_you_mean(call.tool, self.tools)
            known = ", ".join(sorted(self.tools))
            return ToolResult.failure("unknown_tool", f"there is no tool {call.tool!r}{hint}; tools: {known}")
        assert self.sandbox is not None, "calls come when the sandbox is started"
        deadline = self.deadline.within(self.tool_timeout_sec)
        context = ToolContext(
            workspace=self.workspace,
            sandbox=self.sandbox,
            deadline=deadline,
            editable=self.editable,
            save_diff=lambda diff, changed: self._save_diff(step, diff, changed),
        )
        try:
            return _checked(tool.call(call.arguments, context), call.tool)
        except ToolError as error:
            return ToolResult.failure(error.error_type, error.message)
        except InputError as error:
            return ToolResult.failure("bad_arguments", error.message)
        except DeadlineExceeded:
            self.deadline.check()  # the attempt's own time is another matter
            return ToolResult.failure("timeout", f"the call took longer than {self.tool_timeout_sec:g} s")
        except (AttemptStop, SandboxError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug in a tool is an answer to the agent, not its end
            message = f"tool {call.tool!r} raised {type(error).__name__}: {error}"
            self.log.emit(Warning_(message=f"{message}\n{traceback.format_exc()}"))
            return ToolResult.failure("internal_error", message)

    def _save_diff(self, step: int, diff: str, changed: Sequence[str]) -> None:
        name = layout.step_diff(step)
        self.files.write(name, diff)
        self.log.emit(PatchApplied(step=step, files=tuple(changed), diff=name))


def _checked(result: object, tool: str) -> ToolResult:
    """What a tool gave, if it is a result that can be written down."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"{tool} returned {result!r}, which is no ToolResult")
    json.dumps(dump(result))
    return result


@attrs.frozen(kw_only=True)
class ToolCallRecord:
    """One line of ``agent/tool_calls.jsonl``."""

    step: int
    call: ToolCall
    result: ToolResult


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
