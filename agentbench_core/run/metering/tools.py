"""The tools as seen by an agent: metered, timed and recorded."""

from __future__ import annotations

import contextlib
import errno
import json
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import (
    AgentBenchError,
    AttemptStop,
    DeadlineExceeded,
    InputError,
    SandboxError,
    ToolError,
    did_you_mean,
)
from agentbench_core.evidence import layout
from agentbench_core.inputs.suite import editable_paths
from agentbench_core.plugin.contracts import EventLog, Tool, ToolContext, Workspace
from agentbench_core.plugin.sandbox import Environment, ProgramEnvironment, Sandbox
from agentbench_core.run.metering.resources import CountingSandbox, LimitCounter, PhaseMonitor
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Evidence, Recording
from agentbench_core.values.events import PatchApplied, ToolCallFinished, ToolCallStarted, Warning_
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import ToolCall, ToolResult, ToolSpec
from agentbench_core.values.text import shorten
from agentbench_core.workspace.tree import Tree

_HOST_ERRORS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
"""Error numbers that indicate exhausted limits or broken infrastructure, not a mistake of the agent."""

_ARGUMENTS, _READ, _SHOWN, _NAME = 20, 4096, 160, 40
"""Limits of a line of arguments: their number, and the characters read from each, of the line, and of a name."""


class StopSignal:
    """The first error that stopped the agent from outside; it counts even if the agent caught it."""

    def __init__(self) -> None:
        self.error: AgentBenchError | None = None

    def set(self, error: AgentBenchError) -> None:
        """Set the error, unless one is already set."""
        self.error = self.error or error


@attrs.define(kw_only=True)
class MeteredToolbox:
    """The tools of an attempt: one step per call, each with its own deadline, events and evidence."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    editable: Callable[[str], bool]
    deadline: Deadline
    tool_timeout_sec: float
    log: EventLog
    files: Evidence
    stop: StopSignal
    sandbox: Sandbox | None = None
    """Set after the sandbox has started."""
    limits_hit: LimitCounter = attrs.field(factory=LimitCounter)
    _inside: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def busy(self) -> bool:
        """Whether a call is in progress. If so, the tree stays open, so that its descriptor is not reused."""
        return self._inside > 0

    def call_for(self, agent: str, budget: Budget, names: Collection[str], call: ToolCall) -> ToolResult:
        """Call a tool that the agent may use, and charge its budget; see the contract."""
        if not isinstance(call, ToolCall):
            raise TypeError(f"{call!r} is not a ToolCall")
        with self._lock:
            self._inside += 1
        try:
            return self._call(agent, budget, names, call)
        finally:
            with self._lock:
                self._inside -= 1

    def observe_for(self, agent: str, budget: Budget, call: ToolCall) -> Callable[[ToolResult], None]:
        """Record a call of one of the agent's own tools; see ``ProgramContext``."""
        step = self._begin(agent, budget, call)
        started = time.monotonic()
        ended = threading.Lock()

        def finish(result: ToolResult) -> None:
            if ended.acquire(blocking=False):  # once
                self._record(step, call, _checked(result, call.tool), round(time.monotonic() - started, 6))

        return finish

    def _begin(self, agent: str, budget: Budget, call: ToolCall) -> int:
        """Charge the budget for a call, and record its start. Returns the number of the step."""
        try:
            self.deadline.check()
            step = budget.spend_step()
        except AttemptStop as error:
            if (
                getattr(getattr(error, "budget", None), "parent", None) is None
            ):  # an exhausted share ends only its sub-agent
                self.stop.set(error)
            raise
        arguments = _one_line(call.arguments, self.files.cleaned)
        self.log.emit(ToolCallStarted(step=step, agent=agent, tool=call.tool, arguments=arguments))
        return step

    def _record(self, step: int, call: ToolCall, result: ToolResult, seconds: float) -> None:
        self.files.append_json(layout.TOOL_CALLS, ToolCallRecord(step=step, call=call, result=result))
        self.log.emit(
            ToolCallFinished(
                step=step, tool=call.tool, ok=result.ok, error_type=result.error_type, duration_sec=seconds
            )
        )

    def _call(self, agent: str, budget: Budget, names: Collection[str], call: ToolCall) -> ToolResult:
        step = self._begin(agent, budget, call)
        started = time.monotonic()
        stopped: AgentBenchError | None = None
        result = ToolResult.failure("stopped", "the call was stopped from outside")
        try:
            try:
                result = self._answer(call, names, step)
            finally:  # a call that outlasts the attempt fails with the reason why the attempt ended
                self.deadline.check()
        except (AttemptStop, SandboxError) as error:
            stopped = error
        self._record(step, call, result, round(time.monotonic() - started, 6))
        if stopped:
            self.stop.set(stopped)
            raise stopped
        return result

    def _answer(self, call: ToolCall, names: Collection[str], step: int) -> ToolResult:
        if call.problem:
            return ToolResult.failure("malformed_call", call.problem)
        tool = self.tools.get(call.tool) if call.tool in names else None
        if tool is None:
            hint = did_you_mean(call.tool, names)
            known = ", ".join(sorted(names))
            return ToolResult.failure("unknown_tool", f"there is no tool {call.tool!r}{hint}; tools: {known}")
        assert self.sandbox is not None, "tools must not be called before the sandbox has started"
        deadline = self.deadline.within(self.tool_timeout_sec)
        context = ToolContext(
            workspace=self.workspace,
            sandbox=self.sandbox,
            deadline=deadline.shown(),
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
            self.deadline.check()  # raises if the attempt's own time is used up
            return ToolResult.failure("timeout", f"the call took longer than {self.tool_timeout_sec:g} s")
        except (AttemptStop, SandboxError):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and error.errno in _HOST_ERRORS:
                raise SandboxError(f"tool {call.tool!r}: {error}") from error
            message = f"tool {call.tool!r} raised {type(error).__name__}: {error}"
            self.log.emit(Warning_(message=f"{message}\n{traceback.format_exc()}"))
            return ToolResult.failure("internal_error", message)

    def _save_diff(self, step: int, diff: str, changed: Sequence[str]) -> None:
        name = layout.step_diff(step)
        self.files.write(name, diff)
        self.log.emit(PatchApplied(step=step, files=tuple(changed), diff=name))


@attrs.frozen
class AgentTools:
    """Implements ``Toolbox`` for one agent of an attempt, with its tools and budget."""

    toolbox: MeteredToolbox
    agent: str
    budget: Budget
    names: frozenset[str]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The available tools, sorted by name."""
        return tuple(tool.spec for name, tool in sorted(self.toolbox.tools.items()) if name in self.names)

    def call(self, call: ToolCall) -> ToolResult:
        """Call a tool; see the contract."""
        return self.toolbox.call_for(self.agent, self.budget, self.names, call)


@contextlib.contextmanager
def open_toolbox(
    plan: AttemptPlan,
    environment: Environment,
    workspace: Path,
    *,
    deadline: Deadline,
    recording: Recording,
    stop: StopSignal,
    monitor: PhaseMonitor | None = None,
    programs: Mapping[str, Path] | None = None,
) -> Iterator[MeteredToolbox]:
    """The tools that the task allows, in their own sandbox; no process is left afterwards.

    ``programs``: directories to mount for an agent that is a program; ``None`` for other agents.
    """
    task = plan.task.spec
    tools = {tool.name: tool.make() for tool in plan.variant.tools}
    if not task.agent.allow_file_write:
        tools = {name: tool for name, tool in tools.items() if tool.spec.effect in ("reads", "runs")}
    with contextlib.ExitStack() as stack:
        tree = Tree(workspace)
        toolbox = MeteredToolbox(
            tools=tools,
            workspace=tree,
            editable=editable_paths(task),
            deadline=deadline,
            tool_timeout_sec=plan.limits.tool_timeout_sec,
            log=recording.log,
            files=recording.files,
            stop=stop,
            limits_hit=LimitCounter(monitor),
        )
        stack.callback(lambda: None if toolbox.busy else tree.close())  # see MeteredToolbox.busy
        start = environment.start
        if programs is not None:
            start = partial(cast(ProgramEnvironment, environment).start_with_programs, programs=programs)
        sandbox = start(
            workspace,
            read_only=not task.agent.allow_file_write,
            network=task.environment.network_policy == "always",
            deadline=deadline,
        )
        stack.callback(sandbox.close)
        toolbox.sandbox = CountingSandbox(sandbox, toolbox.limits_hit)
        yield toolbox


def _one_line(arguments: Mapping[str, object], cleaned: Callable[[object], object]) -> str:
    """Arguments as one short line, such as ``app.py start_line=10``. Text in first position has no name.

    Texts are cut before secrets are redacted, so that a call with megabytes costs little, and shortened afterwards, so
    that no part of a secret at the cut is left.
    """
    parts: list[str] = []
    for name, value in islice(arguments.items(), _ARGUMENTS):
        if isinstance(value, (list, tuple)):
            text = " ".join(item[:_READ] if isinstance(item, str) else "..." for item in value[:_ARGUMENTS])
        elif value is None:
            continue
        else:
            text = value[:_READ] if isinstance(value, str) else json.dumps(value) if _is_small(value) else "..."
        text = shorten(" ".join(str(cleaned(text[:_READ])).split()), _SHOWN)
        parts.append(text if not parts and isinstance(value, str) else f"{shorten(name, _NAME)}={text}")
    return shorten(" ".join(parts), _SHOWN)


def _is_small(value: object) -> bool:
    return isinstance(value, (bool, float)) or (isinstance(value, int) and value.bit_length() <= 64)


def _checked(result: object, tool: str) -> ToolResult:
    """The result of a tool, if it is valid and can be recorded."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"{tool} returned {result!r}, which is not a ToolResult")
    json.dumps(dump(result))
    return result


@attrs.frozen(kw_only=True)
class ToolCallRecord:
    """One line of ``agent/tool_calls.jsonl``."""

    step: int
    call: ToolCall
    result: ToolResult
