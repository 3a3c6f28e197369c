"""Have a scorer judge a frozen change."""

from __future__ import annotations

import time
from pathlib import Path

import attrs

from agentbench_core.errors import DeadlineExceeded, ToolError
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.contracts import EventLog, Scorer, ScoringContext
from agentbench_core.run.attempt_log import Evidence
from agentbench_core.run.change import FrozenChange
from agentbench_core.run.limits_hit import CountingEnvironment, LimitsHit
from agentbench_core.run.load import Watch
from agentbench_core.run.preparation import Preparations, Prepared, hidden_paths
from agentbench_core.values.events import TestsFinished, TestsStarted
from agentbench_core.values.execution import ExecResult
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Score
from agentbench_core.workspace.tree import Tree


@attrs.frozen(kw_only=True)
class Judge:
    """A scorer on one task, with what it works on."""

    scorer: Scorer
    task: Task
    prepared: Prepared
    shared: Preparations
    files: Evidence
    log: EventLog
    each_test: bool = False
    watch: Watch = attrs.field(factory=Watch)

    def score(self, change: FrozenChange, deadline: Deadline) -> Score:
        """The judgement of a change; time that runs out is one. Raises SandboxError, Interrupted."""
        spec = self.task.spec
        made: list[Path] = []
        limits_hit = LimitsHit(self.watch)

        def save_output(result: ExecResult) -> None:
            self.files.log("passing", result.stdout, result.stderr, full=spec.artifacts.full_logs)

        context = ScoringContext(
            environment=CountingEnvironment(self.prepared.environment, limits_hit),
            validation=spec.validation,
            fork=lambda: self._remember(made, self._fork(change, deadline)),
            hidden=hidden_paths(self.task),
            scratch=lambda name: self._remember(made, self.shared.empty(name)),
            network=spec.environment.network_policy == "always",
            deadline=deadline,
            save_output=save_output,
            each_test=self.each_test,
        )
        self.log.emit(TestsStarted(command=spec.validation.passing_command))
        started = time.monotonic()
        try:
            deadline.check()
            score = self.scorer.score(context)
        except DeadlineExceeded:
            score = Score(passed=False, exit_code=None, timed_out=True, explanation="the tests ran out of time")
        except ToolError as error:  # such as a file where the tests have a directory
            score = Score(passed=False, exit_code=None, explanation=f"the change fits nowhere: {error}")
        finally:
            for path in made:
                self.shared.discard(path)
        took = round(time.monotonic() - started, 6)
        self.log.emit(TestsFinished(exit_code=score.exit_code, passed=score.passed, duration_sec=took))
        return attrs.evolve(score, labels=(*score.labels, *limits_hit.labels("score")))

    def _fork(self, change: FrozenChange, deadline: Deadline) -> Path:
        def waited(seconds: float) -> None:
            self.watch.waited(seconds)
            deadline.extend(seconds)  # the time of others

        environment = self.prepared.environment
        workspace = self.shared.fork(self.task, environment, "scoring", hidden=False, waited=waited)
        with Tree(workspace) as tree:
            self.shared.snapshots.restore(change.kept, tree)
        self.shared.add_hidden(self.task, workspace)
        return workspace

    @staticmethod
    def _remember(made: list[Path], path: Path) -> Path:
        made.append(path)
        return path
