"""Let a scorer find out what to expect of a task in an environment: once, and kept beside the task.

What it found is bound to the task, its reference solution, the environment and the scorer: with another one of these
it is found out again, before anything is scored.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core.converter import dump
from agentbench_core.errors import BudgetExceeded, CalibrationError, DeadlineExceeded, InputError
from agentbench_core.inputs.documents import replace_text
from agentbench_core.plugin.agent import AgentResult, AttemptContext
from agentbench_core.plugin.contracts import EventLog, Toolbox
from agentbench_core.plugin.scorer import Calibration, CalibrationContext
from agentbench_core.run.attempt.agent import instruction
from agentbench_core.run.attempt.change import FrozenChange, freeze
from agentbench_core.run.attempt.preparation import Prepared, PreparedTasks, hidden_paths
from agentbench_core.run.metering.tools import AgentTools, StopSignal, open_toolbox
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import MemoryEvidence, Recording, WarningLog
from agentbench_core.run.signals import unless
from agentbench_core.values.events import Warning_
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import ToolCall
from agentbench_core.values.task import digest
from agentbench_core.workspace.tree import Tree

DIRECTORY = "expectations"
"""Below a task's directory; a file per environment and scorer."""
CAPABILITY = "calibrates"
_KEPT = ("data", "summary", "weakness")
_SESSIONS = 5
"""How many times the time of one verdict a calibration may take."""
_LARGEST = 256 << 20  # bytes of a file


class ReferenceRefusedError(Exception):
    """The reference solution could not be applied: there was no time, an edit was not allowed, or a call failed."""

    def __init__(self, how: Literal["late", "not_editable", "failed"], reason: str) -> None:
        super().__init__(reason)
        self.how = how


@attrs.define
class ApplyReference:
    """An agent that applies the reference solution, and keeps why it could not."""

    refused: ReferenceRefusedError | None = None

    def solve(self, context: AttemptContext) -> AgentResult:
        """Make the calls in order, up to the first one that is refused."""
        try:
            _apply(context.tools, context.script)
        except ReferenceRefusedError as error:
            self.refused = error
            return AgentResult(ended="tool_error", message=str(error))
        return AgentResult()


def reference_change(
    plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, recording: Recording, deadline: Deadline
) -> FrozenChange:
    """Apply the reference solution to a fork, and freeze what it changed.

    Raises:
        ReferenceRefusedError: a call was refused, or there was no time.
        SandboxError: the machinery broke.
    """
    workspace = shared.fork(plan.task, prepared.environment, "workspace", hidden=False)
    try:
        with open_toolbox(
            plan, prepared.environment, workspace, deadline=deadline, recording=recording, stop=StopSignal()
        ) as toolbox:
            budget = Budget(max_steps=plan.limits.max_steps)
            _apply(AgentTools(toolbox, "oracle", budget, frozenset(toolbox.tools)), plan.task.script)
        return freeze(shared.snapshots, prepared.base, workspace, plan.task.spec)
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
            reason = f"the reference solution has {len(calls)} calls: {error.message}"
            raise ReferenceRefusedError("failed", reason) from None
        if not result.ok:
            said = f"{_named(number, calls, call)} failed: {result.error_type}: {result.error_message}"
            forbidden = result.error_type == "not_editable"
            raise ReferenceRefusedError("not_editable" if forbidden else "failed", said)


def _named(number: int, calls: Sequence[ToolCall], call: ToolCall) -> str:
    return f"call {number} of {len(calls)} of the reference solution ({call.tool})"


def calibration(
    plan: AttemptPlan,
    prepared: Prepared,
    shared: PreparedTasks,
    log: EventLog,
    *,
    anew: bool = False,
    waited: Callable[[float], None] = lambda seconds: None,
) -> Calibration | None:
    """What a scorer knows of a task; ``None`` if it is none that calibrates.

    Args:
        plan: which task, who will judge, and with which tools and limits the reference solution is applied.
        prepared: the task's environment.
        shared: what attempts share; one of them calibrates, and the others wait.
        log: for warnings.
        anew: do it even if the result of an earlier run is there.
        waited: called with the seconds that it took, also where another thread did it.

    Raises:
        SandboxError: the machinery broke.
        Interrupted: it was stopped.
    """
    if not plan.scorer.can(CAPABILITY):
        return None
    make = partial(_kept_or_made, plan, prepared, shared, log, anew=anew)
    started = time.monotonic()
    try:
        key = plan.task.directory, digest(plan.scorer.identity())
        return shared.calibrations.get(key, make, shared.stop)
    finally:
        waited(time.monotonic() - started)


def _kept_or_made(
    plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, log: EventLog, *, anew: bool
) -> Calibration:
    task = plan.task
    bound = _bound(plan, prepared)
    place = digest([bound["environment"], bound["scorer"]]).removeprefix("sha256:")[:16]
    path = task.directory / DIRECTORY / f"{place}.json"
    if not anew and (kept := _read(path, bound)) is not None:
        return kept
    made = _make(plan, prepared, shared, log)
    if made.data and not (made.obstacle or made.not_failing):
        found = {name: getattr(made, name) for name in _KEPT}
        text = json.dumps({"for": bound, "digest": _sum(found), **found}, indent=1, ensure_ascii=True) + "\n"
        try:
            path.parent.mkdir(exist_ok=True)
            replace_text(path, text)
        except (OSError, InputError) as error:
            log.emit(Warning_(message=f"{task.spec.id}: could not cache its calibration: {error}"))
    return made


def _bound(plan: AttemptPlan, prepared: Prepared) -> dict[str, Any]:
    """What a calibration depends on."""
    task, scorer = plan.task, plan.scorer
    solution = json.dumps(dump(task.script), sort_keys=True).encode("utf-8", "surrogatepass")
    return {
        "task": task.digest,
        "reference": f"sha256:{hashlib.sha256(solution).hexdigest()}",
        "environment": prepared.environment.digest,
        "scorer": scorer.identity(),
        "version": getattr(scorer.make(), "calibration_version", 0),
    }


def _sum(found: dict[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()}"


def _read(path: Path, bound: dict[str, Any]) -> Calibration | None:
    """What an earlier run kept; nothing of a file that is damaged, or of something else."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        plain = json.loads(path.read_bytes())
        found = {name: plain[name] for name in _KEPT}
        if plain["for"] != json.loads(json.dumps(bound)) or plain["digest"] != _sum(found):
            return None
        return Calibration(
            data=dict(found["data"]), summary=tuple(map(str, found["summary"])), weakness=str(found["weakness"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _make(plan: AttemptPlan, prepared: Prepared, shared: PreparedTasks, log: EventLog) -> Calibration:
    task = plan.task
    deadline = shared.stop.within(_SESSIONS * plan.limits.timeout_sec)
    warnings = WarningLog(lambda message: log.emit(Warning_(message=message)))  # its tool calls are no agent's
    quiet = Recording(log=warnings, files=MemoryEvidence())
    made: list[Path] = []

    @functools.cache
    def change() -> FrozenChange:
        return reference_change(plan, prepared, shared, quiet, deadline)

    try:

        def fork(solved: bool) -> Path:
            if solved and not task.script:
                raise CalibrationError("the task has no reference solution; add one under `oracle`")
            kept = change().included if solved else ()
            workspace = shared.fork(task, prepared.environment, "calibration", hidden=False)
            made.append(workspace)
            with Tree(workspace) as tree:
                shared.snapshots.restore(kept, tree)
            shared.add_hidden(task, workspace)
            return workspace

        def scratch(name: str) -> Path:
            made.append(shared.empty(name))
            return made[-1]

        context = CalibrationContext(
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
        calibrated: Calibration = unless(
            shared.stop, lambda: plan.scorer.make().calibrate(context), f"calibration {task.spec.id}"
        )
        return calibrated
    except ReferenceRefusedError as error:
        return Calibration(data={}, weakness=f"the reference solution cannot be applied: {error}")
    except CalibrationError as error:
        return Calibration(data={}, weakness=f"the task could not be calibrated: {error.message}")
    except DeadlineExceeded:
        shared.stop.check()
        return Calibration(data={}, weakness="calibration timed out; raise environment.timeout_sec")
    finally:
        for path in made:
            shared.discard(path)
