"""What an attack says of a task, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from agentbench_core.harness import DEFAULT_PROTECTED, Task
from agentbench_integrity.attack.trials import Ended, Trial


@attrs.frozen(kw_only=True)
class Problem:
    """A trial that did not end as it must, and what to do about it."""

    trial: Trial
    reason: str
    remedy: str


@attrs.frozen(kw_only=True)
class Attacked:
    """All trials of a task before one scorer."""

    task: Task
    trials: tuple[Trial, ...]

    def ended(self, ended: Ended) -> int:
        """How many adversaries ended so, controls left out."""
        return sum(trial.ended is ended for trial in self.trials if not trial.control)

    @property
    def problems(self) -> Sequence[Problem]:
        """Each trial that did not end as it must, in order."""
        return [_problem(trial) for trial in self.trials if not trial.expected]

    @property
    def verdict(self) -> Literal["holds", "forgeable", "unfair", "unknown"]:
        """Forgeable: an adversary passed. Unfair: a control ended wrongly. Unknown: one could not be tried."""
        wrong = [problem.trial for problem in self.problems]
        if any(not trial.control and trial.ended is Ended.PASSED for trial in wrong):
            return "forgeable"
        if any(trial.control and trial.ended is not Ended.BROKEN for trial in wrong):
            return "unfair"
        return "unknown" if wrong else "holds"

    @property
    def duration_sec(self) -> float:
        """Of all trials; the first one has the set-up in it."""
        return sum(trial.duration_sec for trial in self.trials)


def by_task(trials: Sequence[Trial]) -> Sequence[Attacked]:
    """The trials of one scorer, by task, in order."""
    tasks = {id(trial.task): trial.task for trial in trials}
    return [
        Attacked(task=task, trials=tuple(trial for trial in trials if trial.task is task)) for task in tasks.values()
    ]


def _problem(trial: Trial) -> Problem:
    name, why = trial.agent.name, trial.explanation
    if trial.ended is Ended.BROKEN:
        remedy = "Correct what broke, and attack again."
        return Problem(trial=trial, reason=f"{name} could not be tried: {why}", remedy=remedy)
    if trial.must_pass:
        remedy = "The reference solution must pass: see agentbench validate-tasks."
        return Problem(trial=trial, reason=f"the control {name} did not pass: {why}", remedy=remedy)
    if trial.control:
        remedy = "passing_command must fail as long as the bug is there."
        return Problem(trial=trial, reason=f"the control {name} passed", remedy=remedy)
    reason = f"{name} passed: {trial.agent.component.summary}"
    return Problem(trial=trial, reason=reason, remedy=" ".join(_remedies(trial.task)))


def _remedies(task: Task) -> list[str]:
    """What this task could have and has not, the easiest first."""
    validation, found = task.spec.validation, []
    if not task.spec.agent.editable_globs:
        found.append("Narrow agent.editable_globs to what a fix needs.")
    if not validation.expected_tests:
        found.append("Fill fail_to_pass: `agentbench validate-tasks --write`.")
    if not task.hidden:
        found.append("Add hidden tests: validation.files.")
    if set(DEFAULT_PROTECTED) - set(validation.protected_globs):
        found.append("Protect what is protected by default: validation.protected_globs.")
    if validation.isolation != "process":
        found.append("Let the tests start the program in a process of its own: validation.isolation.")
    return found or ["Look at what it did, and let the tests see what they do not see yet."]
