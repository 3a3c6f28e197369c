"""Calibrate a scorer on a task in an environment, and cache the result next to the task.

The result is bound to the task, its reference solution, the environment and the scorer. If any of these changes, the
scorer calibrates again before anything is scored.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import BudgetExceeded, CalibrationError, DeadlineExceeded, InputError
from agentbench_core.inputs.documents import replace_text
from agentbench_core.inputs.suite import hidden_paths
from agentbench_core.plugin.agent import AgentResult, AttemptContext
from agentbench_core.plugin.contracts import EventLog, Toolbox
from agentbench_core.plugin.scorer import Calibration, CalibrationContext
from agentbench_core.run.attempt.agent import instruction
from agentbench_core.run.attempt.change import FrozenChange, freeze
from agentbench_core.run.attempt.preparation import Prepared, PreparedTasks
from agentbench_core.run.metering.tools import AgentTools, StopSignal, open_toolbox
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import MemoryEvidence, Recording, WarningLog
from agentbench_core.run.signals import until_stopped
from agentbench_core.values.events import Warning_
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import ToolCall
from agentbench_core.values.task import digest
from agentbench_core.workspace.tree import Tree

DIRECTORY = "expectations"
"""The directory inside a task's directory, with one file per environment and scorer."""
CAPABILITY = "calibrates"
_CACHED = ("data", "summary", "weakness")
_SESSIONS = 5
"""The time limit of a calibration, as a multiple of the task's time limit."""
_LARGEST = 256 << 20  # maximum bytes of a cached file


class ReferenceRefusedError(Exception):
    """The reference solution could not be applied: a timeout, a forbidden edit, or a failed call."""

    def __init__(self, how: Literal["late", "not_editable", "failed"], reason: str) -> None:
        super().__init__(reason)
        self.how = how  #: `late`, `not_editable` or `failed`


@attrs.define
class ApplyReference:
    """An agent that applies the reference solution, and records the reason if that fails."""

    refused: ReferenceRefusedError | None = None  #: why the reference solution could not be applied

    def solve(self, context: AttemptContext) -> AgentResult:
        """Make the calls in order, up to the first one that fails."""
        try:
            _apply(context.tools, context.script)
        except ReferenceRefusedError as error:
            self.refused = error
            return AgentResult(ended="tool_error", message=str(error))
        return AgentResult()


def reference_change(
    plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, recording: Recording, deadline: Deadline
) -> FrozenChange:
    """Apply the reference solution to a fork, and freeze its change.

    Raises:
        ReferenceRefusedError: a call failed, timed out, or exceeded the step limit.
        SandboxError: the sandbox failed.
    """
    workspace = shared.fork(plan.task, prepared.environment, "workspace", hidden=False)
    try:
        with open_toolbox(
            plan, prepared.environment, workspace, deadline=deadline, recording=recording, stop=StopSignal()
        ) as toolbox:
            budget = Budget(max_steps=plan.limits.max_steps)
            _apply(AgentTools(toolbox, "oracle", budget, frozenset(toolbox.tools)), plan.task.script)
        return freeze(shared.snapshots, prepared.base, workspace, plan.task)
    finally:
        shared.discard(workspace)


def _apply(tools: Toolbox, calls: Sequence[ToolCall]) -> None:
    for number, call in enumerate(calls, start=1):
        try:
            result = tools.call(call)
        except DeadlineExceeded:
            named = _named(number, calls, call)
            raise ReferenceRefusedError("late", f"the reference solution timed out in {named}") from None
        except BudgetExceeded as error:
            reason = f"the reference solution needs {len(calls)} tool calls, but {error.message}"
            raise ReferenceRefusedError("failed", reason) from None
        if not result.ok:
            message = f"{_named(number, calls, call)} failed: {result.error_type}: {result.error_message}"
            forbidden = result.error_type == "not_editable"
            raise ReferenceRefusedError("not_editable" if forbidden else "failed", message)


def _named(number: int, calls: Sequence[ToolCall], call: ToolCall) -> str:
    return f"call {number} of {len(calls)} in the reference solution ({call.tool})"


def calibration(
    plan: AttemptPlan,
    prepared: Prepared,
    shared: PreparedTasks,
    log: EventLog,
    *,
    refresh: bool = False,
    waited: Callable[[float], None] = lambda seconds: None,
) -> Calibration | None:
    """The calibration of a task's scorer; ``None`` for a scorer that does not calibrate.

    Args:
        plan: the task, the scorer, and the tools and limits for applying the reference solution.
        prepared: the task's environment.
        shared: state shared by attempts; one of them calibrates while the others wait.
        log: receives warnings.
        refresh: ignore the cached result of an earlier run.
        waited: called with the seconds spent, even if another thread did the work.

    Raises:
        SandboxError: the sandbox failed.
        Interrupted: the run was stopped.
    """
    if not plan.scorer.can(CAPABILITY):
        return None
    make = partial(_cached_or_new, plan, prepared, shared, log, refresh=refresh)
    started = time.monotonic()
    try:
        key = plan.task.directory, plan.task.digest, digest(plan.scorer.identity())
        return shared.calibrations.get(key, make, shared.stop)
    finally:
        waited(time.monotonic() - started)


def _cached_or_new(
    plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, log: EventLog, *, refresh: bool
) -> Calibration:
    task = plan.task
    bound = _bound(plan, prepared)
    file_name = digest([bound["environment"], bound["scorer"]]).removeprefix("sha256:")[:16]
    path = task.directory / DIRECTORY / f"{file_name}.json"
    if not refresh and (retained := _read(path, bound)) is not None:
        return retained
    made = _make(plan, prepared, shared, log)
    if made.data and not (made.obstacle or made.not_failing):
        results = {name: getattr(made, name) for name in _CACHED}
        text = json.dumps({"for": bound, "digest": _hash(results), **results}, indent=1, ensure_ascii=True) + "\n"
        try:
            path.parent.mkdir(exist_ok=True)
            replace_text(path, text)
        except (OSError, InputError) as error:
            log.emit(Warning_(message=f"{task.spec.id}: could not cache its calibration: {error}"))
    return made


def _bound(plan: AttemptPlan, prepared: Prepared) -> dict[str, Any]:
    """Everything that a calibration depends on."""
    task, scorer = plan.task, plan.scorer
    solution = json.dumps(dump(task.script), sort_keys=True).encode("utf-8", "surrogatepass")
    return {
        "task": task.digest,
        "reference": f"sha256:{hashlib.sha256(solution).hexdigest()}",
        "environment": prepared.environment.digest,
        "scorer": scorer.identity(),
        "version": getattr(scorer.make(), "calibration_version", 0),
    }


def _hash(results: dict[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()}"


def _read(path: Path, bound: dict[str, Any]) -> Calibration | None:
    """The cached result of an earlier run; ``None`` if it is missing, too large, damaged or bound to something else."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        plain = json.loads(path.read_bytes())
        results = {name: plain[name] for name in _CACHED}
        if plain["for"] != json.loads(json.dumps(bound)) or plain["digest"] != _hash(results):
            return None
        return Calibration(
            data=dict(results["data"]), summary=tuple(map(str, results["summary"])), weakness=str(results["weakness"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _make(plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, log: EventLog) -> Calibration:
    try:
        with calibration_context(plan, prepared, shared, log) as context:
            calibrated: Calibration = until_stopped(
                shared.stop, lambda: plan.scorer.make().calibrate(context), f"calibration {plan.task.spec.id}"
            )
        return calibrated
    except ReferenceRefusedError as error:
        return Calibration(data={}, weakness=f"the reference solution cannot be applied: {error}")
    except CalibrationError as error:
        return Calibration(data={}, weakness=f"the task could not be calibrated: {error.message}")
    except DeadlineExceeded:
        shared.stop.check()
        return Calibration(data={}, weakness="calibration timed out; raise environment.timeout_sec")


@contextlib.contextmanager
def calibration_context(
    plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, log: EventLog
) -> Iterator[CalibrationContext]:
    """Access to a task's tree without and with its reference solution. All copies are removed at the end.

    Args:
        plan: the task, and the tools and limits for applying the reference solution.
        prepared: the task's environment.
        shared: creates the copies.
        log: receives warnings.

    Its ``fork`` raises ReferenceRefusedError if the reference solution cannot be applied.
    """
    task = plan.task
    deadline = shared.stop.within(_SESSIONS * plan.limits.timeout_sec)
    warnings = WarningLog(
        lambda message: log.emit(Warning_(message=message))
    )  # these tool calls are not made by an agent
    quiet = Recording(log=warnings, files=MemoryEvidence())
    made: list[Path] = []

    @functools.cache
    def change() -> FrozenChange:
        return reference_change(plan, prepared, shared, quiet, deadline)

    def fork(solved: bool) -> Path:
        if solved and not task.script:
            raise CalibrationError("the task has no reference solution; add one under `oracle`")
        retained = change().included if solved else ()
        workspace = shared.fork(task, prepared.environment, "calibration", hidden=False)
        made.append(workspace)
        with Tree(workspace) as tree:
            shared.snapshots.apply(retained, tree)
        shared.add_hidden(task, workspace)
        return workspace

    def scratch(name: str) -> Path:
        made.append(shared.empty(name))
        return made[-1]

    try:
        yield CalibrationContext(
            environment=prepared.environment,
            validation=task.spec.validation,
            fork=fork,
            has_reference=bool(task.script),
            hidden_files={path: file.data for path, file in zip(hidden_paths(task), task.hidden, strict=True)},
            description=instruction(task, ""),
            scratch=scratch,
            network=task.spec.environment.network_policy == "always",
            deadline=deadline,
        )
    finally:
        for path in made:
            shared.discard(path)
