"""Runs and validation go through the same attempts."""

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
    """Keeps the phases that it is told of."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.looks: list[TaskCheck] = []

    def phase_started(self, attempt_id: str, phase: str) -> None:
        self.phases.append(phase)

    def looked(self, task: Task, number: int, look: TaskCheck) -> None:
        self.looks.append(look)


def test_a_look_at_a_task_is_two_attempts(make_task: Any, tmp_path: Path) -> None:
    """One of an agent that does nothing, whose empty change is judged, and one of the reference solution."""
    make_task(python=True)
    resolved = resolve([], App(frozenset()).registry.name_of)
    variant = variant_without_agents("validation", resolved, App(frozenset()).registry)
    watcher = Watcher()
    (finding,) = validation.validate(
        read_suite(tmp_path / "tasks", "mini"), variant, watcher, times=1, workers=1, per_test=True
    )
    assert finding.verdict == "valid"
    assert watcher.phases == [*PHASES, *PHASES]
    (look,) = watcher.looks
    assert look.before is not None
    assert look.after is not None
    (test,) = look.after
    assert (look.before.get(test), look.after[test]) == ("failed", "passed")
