"""Run auditors on a scored attempt, or on a task. Their labels do not change the score."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.errors import Interrupted
from agentbench_core.inputs.suite import hidden_paths
from agentbench_core.plugin.auditor import AttemptAudit, Auditor, TaskAudit, TaskProblem
from agentbench_core.plugin.sandbox import Sandbox
from agentbench_core.run.attempt.agent import baseline_output, instruction
from agentbench_core.run.attempt.change import FrozenChange
from agentbench_core.run.attempt.preparation import Baseline, Prepared, PreparedTasks
from agentbench_core.run.metering.tools import StopSignal, open_toolbox
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import AttemptEvents, MemoryEvidence, Recording
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Change, Integrity, Label
from agentbench_core.workspace.snapshot import Snapshots

_SECONDS = 300.0  # time limit for all auditors of a task together; the task's own limit does not apply


def audit_attempt(
    plan: AttemptPlan,
    prepared: Prepared,
    baseline: Baseline,
    change: FrozenChange,
    snapshots: Snapshots,
    directory: Path | None,
) -> tuple[Label, ...]:
    """The labels of all auditors. ``directory`` contains the attempt's files, if any. Raises Interrupted if stopped."""
    labels: list[Label] = []
    for ready in plan.variant.auditors:
        audit = AttemptAudit(
            **_facts(plan, baseline),
            tree=prepared.environment.workspace,
            knows_solution=plan.agent.can("needs_oracle"),
            effects={tool.name: tool.make().spec.effect for tool in plan.variant.tools},
            changes=change.included,
            contents=snapshots.contents,
            directory=directory,
        )
        auditor: Auditor = ready.make()
        try:
            labels += auditor.audit_attempt(audit)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - agents may leave unexpected data: label the attempt, keep its score
            reason = f"auditor {ready.name} failed to audit the attempt: {type(error).__name__}: {error}"
            labels.append(Label(name=Integrity.TAMPER_SUSPECTED.value, evidence=reason))
    return tuple(labels)


@attrs.frozen(kw_only=True)
class TaskAuditing:
    """The audit of one task."""

    plan: AttemptPlan  #: the task and the auditors
    shared: PreparedTasks  #: prepared tasks of the session
    prepared: Prepared  #: the environment of the task
    baseline: Baseline  #: results of the failing command before the fix
    solved: Sequence[Change]  #: the change made by its reference solution, if known
    log: AttemptEvents  #: receives events
    note: Callable[[str], None]  #: shows a message to the user

    def problems(self, stop: Deadline) -> Sequence[TaskProblem]:
        """The problems found by all auditors. Raises SandboxError if the sandbox fails, Interrupted if stopped."""
        deadline = stop.within(_SECONDS)
        results: list[TaskProblem] = []
        for ready in self.plan.variant.auditors:
            audit = TaskAudit(
                **_facts(self.plan, self.baseline),
                tree=self.shared.source(self.plan.task),
                solved=self.solved,
                open_sandbox=lambda: self._open_sandbox(deadline),
                isolated=self.plan.variant.sandbox.can("isolated"),
                network=self.plan.task.spec.environment.network_policy == "always",
                deadline=deadline,
                note=self.note,
            )
            auditor: Auditor = ready.make()
            results += auditor.audit_task(audit)
        return results

    @contextlib.contextmanager
    def _open_sandbox(self, deadline: Deadline) -> Iterator[Sandbox]:
        environment = self.prepared.environment
        workspace = self.shared.fork(self.plan.task, environment, "workspace", hidden=False)
        recording = Recording(log=self.log, files=MemoryEvidence())
        try:
            with open_toolbox(
                self.plan, environment, workspace, deadline=deadline, recording=recording, stop=StopSignal()
            ) as toolbox:
                assert toolbox.sandbox is not None
                yield toolbox.sandbox
        finally:
            self.shared.discard(workspace)


def _facts(plan: AttemptPlan, baseline: Baseline) -> Mapping[str, Any]:
    """The common part of both kinds of audits."""
    task, output = plan.task, baseline_output(baseline)
    return {
        "task_id": task.spec.id,
        "validation": task.spec.validation,
        "hidden_files": {path: file.data for path, file in zip(hidden_paths(task), task.hidden, strict=True)},
        "solution": task.script,
        "instruction": instruction(task, output),
        "failure_output": output,
    }
