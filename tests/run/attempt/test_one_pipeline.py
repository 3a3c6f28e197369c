"""Validation uses the same attempts as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentbench_core.cli.app import App
from agentbench_core.inputs.config import resolve
from agentbench_core.inputs.suite import Task, read_suite
from agentbench_core.run.variant import variant_without_agents
from agentbench_tasks import validation
from agentbench_tasks.checks import TaskCheck

PHASES = ["source", "environment", "baseline", "agent", "freeze", "score"]


class Watcher(validation.Watcher):
    """Collects the reported phases and checks."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.checks: list[TaskCheck] = []

    def phase_started(self, attempt_id: str, phase: str) -> None:
        self.phases.append(phase)

    def checked(self, task: Task, number: int, check: TaskCheck) -> None:
        self.checks.append(check)


def test_check_of_a_task_is_two_attempts(make_task: Any, tmp_path: Path) -> None:
    """One with an idle agent, whose empty change is scored, and one with the reference solution."""
    make_task(python=True)
    resolved = resolve([], App(frozenset()).registry.name_of)
    variant = variant_without_agents("validation", resolved, App(frozenset()).registry)
    watcher = Watcher()
    (finding,) = validation.validate(
        read_suite(tmp_path / "tasks", "mini"), variant, watcher, times=1, workers=1, per_test=True
    )
    assert finding.verdict == "valid"
    assert watcher.phases == [*PHASES, *PHASES]
    (check,) = watcher.checks
    assert check.before is not None
    assert check.after is not None
    (test,) = check.after
    assert (check.before.get(test), check.after[test]) == ("failed", "passed")
