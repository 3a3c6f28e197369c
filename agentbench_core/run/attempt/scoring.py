"""Score a frozen change: prepare copies of the tree that contain it, and call the scorer plugin.

The scorer runs the tests and compares their results. The default scorer, ``tests``, first removes the expected values
from hidden tests for pytest, where that is possible. ``--set scorer=NAME`` selects another scorer.
"""

from __future__ import annotations

import time
from pathlib import Path

import attrs

from agentbench_core.errors import DeadlineExceeded, ToolError
from agentbench_core.inputs.suite import hidden_paths
from agentbench_core.plugin.scorer import Scorer, ScoringContext
from agentbench_core.run.attempt.calibration import calibration
from agentbench_core.run.attempt.change import FrozenChange
from agentbench_core.run.attempt.preparation import Prepared, PreparedTasks
from agentbench_core.run.metering.resources import CountingEnvironment, LimitCounter, PhaseMonitor
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.run.signals import until_stopped
from agentbench_core.values.events import TestsFinished, TestsStarted
from agentbench_core.values.execution import ExecResult
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Score
from agentbench_core.workspace.tree import Tree


@attrs.frozen(kw_only=True)
class ScoringRun:
    """Scores changes to one task with the scorer of a plan, and with the task's environment and recording."""

    plan: AttemptPlan
    prepared: Prepared
    shared: PreparedTasks
    recording: Recording
    per_test: bool = False
    monitor: PhaseMonitor = attrs.field(factory=PhaseMonitor)

    def score(self, change: FrozenChange, deadline: Deadline) -> Score:
        """Score a change within the attempt's deadline; a timeout fails it. Raises SandboxError and Interrupted."""
        spec = self.plan.task.spec
        known = calibration(
            self.plan, self.prepared, self.shared, self.recording.log, waited=lambda sec: self._waited(deadline, sec)
        )
        made: list[Path] = []
        limits_hit = LimitCounter(self.monitor)

        def save_output(result: ExecResult) -> None:
            self.recording.files.log("passing", result.stdout, result.stderr, full=self.plan.artifacts.full_logs)

        context = ScoringContext(
            environment=CountingEnvironment(self.prepared.environment, limits_hit),
            validation=spec.validation,
            fork=lambda: self._remember(made, self._fork(change, deadline)),
            hidden=hidden_paths(self.plan.task),
            scratch=lambda name: self._remember(made, self.shared.empty(name)),
            network=spec.environment.network_policy == "always",
            deadline=deadline,
            save_output=save_output,
            save_file=lambda name, data: self.recording.files.write(f"logs/{name}", data),
            calibration=known,
            per_test=self.per_test,
        )
        scorer: Scorer = self.plan.scorer.make()
        self.recording.log.emit(TestsStarted(command=spec.validation.passing_command))
        started = time.monotonic()
        try:
            deadline.check()
            score = until_stopped(self.shared.stop, lambda: scorer.score(context), f"scorer {self.plan.task.spec.id}")
        except DeadlineExceeded:
            score = Score(passed=False, exit_code=None, timed_out=True, explanation="the tests timed out")
        except ToolError as error:  # for example a file where the tests have a directory
            score = Score(passed=False, exit_code=None, explanation=f"the change does not apply: {error}")
        finally:
            for path in made:
                self.shared.discard(path)
        seconds = round(time.monotonic() - started, 6)
        self.recording.log.emit(TestsFinished(exit_code=score.exit_code, passed=score.passed, duration_sec=seconds))
        return attrs.evolve(score, labels=(*score.labels, *limits_hit.labels("score")))

    def _fork(self, change: FrozenChange, deadline: Deadline) -> Path:
        # Without hidden tests at first: they are written after the change, so that it cannot replace them.
        workspace = self.shared.fork(
            self.plan.task,
            self.prepared.environment,
            "scoring",
            hidden=False,
            waited=lambda sec: self._waited(deadline, sec),
        )
        with Tree(workspace) as tree:
            self.shared.snapshots.apply(change.included, tree)
        self.shared.add_hidden(self.plan.task, workspace)
        return workspace

    def _waited(self, deadline: Deadline, seconds: float) -> None:
        self.monitor.add_wait(seconds)
        deadline.extend(seconds)  # waiting for other attempts does not count

    @staticmethod
    def _remember(made: list[Path], path: Path) -> Path:
        made.append(path)
        return path
