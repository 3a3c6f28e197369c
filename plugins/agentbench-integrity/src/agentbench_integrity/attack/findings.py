"""The results of an attack on a task, with suggested fixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_core.harness import DEFAULT_PROTECTED, Task
from agentbench_integrity.attack.trials import Trial, TrialOutcome


@attrs.frozen(kw_only=True)
class Problem:
    """A trial with an unexpected result, and its remedy."""

    trial: Trial
    reason: str
    remedy: str


@attrs.frozen(kw_only=True)
class TaskAttack:
    """All trials of a task with one scorer."""

    task: Task
    trials: tuple[Trial, ...]

    def ended(self, ended: TrialOutcome) -> int:
        """Number of adversaries with this outcome, excluding controls."""
        return sum(trial.ended is ended for trial in self.trials if not trial.control)

    @property
    def problems(self) -> Sequence[Problem]:
        """Each trial with an unexpected result, in order."""
        return [_problem(trial) for trial in self.trials if not trial.expected]

    @property
    def verdict(self) -> Literal["robust", "forgeable", "control_failed", "inconclusive"]:
        """Forgeable: an adversary passed. Otherwise, control failed: a control ran with the wrong result.

        Otherwise, inconclusive: a trial broke.
        """
        wrong = [problem.trial for problem in self.problems]
        if any(not trial.control and trial.ended is TrialOutcome.PASSED for trial in wrong):
            return "forgeable"
        if any(trial.control and trial.ended is not TrialOutcome.BROKEN for trial in wrong):
            return "control_failed"
        return "inconclusive" if wrong else "robust"

    @property
    def duration_sec(self) -> float:
        """Total duration of all trials in seconds; the first trial includes the setup."""
        return sum(trial.duration_sec for trial in self.trials)


def by_task(trials: Sequence[Trial]) -> Sequence[TaskAttack]:
    """The trials with one scorer, by task, in order."""
    tasks = {id(trial.task): trial.task for trial in trials}
    return [
        TaskAttack(task=task, trials=tuple(trial for trial in trials if trial.task is task)) for task in tasks.values()
    ]


def _problem(trial: Trial) -> Problem:
    name, why = trial.agent.name, trial.explanation
    if trial.ended is TrialOutcome.BROKEN:
        remedy = "Fix the failure and run the attack again."
        return Problem(trial=trial, reason=f"{name} did not run: {why}", remedy=remedy)
    if trial.must_pass:
        remedy = "The reference solution must pass. Run: agentbench validate-tasks"
        return Problem(trial=trial, reason=f"the control {name} did not pass: {why}", remedy=remedy)
    if trial.control:
        remedy = "Make passing_command fail without the fix."
        return Problem(trial=trial, reason=f"the control {name} passed", remedy=remedy)
    reason = f"{name} passed: {trial.agent.component.summary}"
    return Problem(trial=trial, reason=reason, remedy=" ".join(_remedies(trial.task)))


def _remedies(task: Task) -> list[str]:
    """Protections that this task lacks, the easiest to add first."""
    validation, result = task.spec.validation, []
    if not task.spec.agent.editable_globs:
        result.append("Narrow agent.editable_globs to the files that a fix needs.")
    if not validation.expected_tests:
        result.append("Fill fail_to_pass with `agentbench validate-tasks --write`.")
    if not task.hidden:
        result.append("Add hidden tests in validation.files.")
    if set(DEFAULT_PROTECTED) - set(validation.protected_globs):
        result.append("Restore the default patterns in validation.protected_globs.")
    if validation.isolation != "process":
        result.append("Set validation.isolation to process if tests run the program only in separate processes.")
    return result or ["Inspect the adversary's change and extend the tests to detect it."]
