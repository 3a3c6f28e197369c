"""One attempt, from source to score.

::

    source       pristine tree: the commit, as a repository without other commits; once per task
    environment  setup, once per task, cached: the prepared tree
    baseline     once per task: failing_command must fail without a change, with the hidden tests. Then the scorer may
                 calibrate, with the reference solution
    agent        agent.solve(context) runs in a thread of this process, its commands in a sandbox; both work on a fresh
                 copy on the host. At the end, all processes of the sandbox are killed, and tool calls are refused
    freeze       the difference between that copy and the prepared tree, without protected and non-editable files
    score        another fresh copy + the frozen change + the hidden tests, for the scorer plugin to judge
    audit        labels for the record; they do not change the score
    record       how the agent ended + the score -> passed, failed or unscored (verdict in values/failures.py)

Evidence such as tool calls, the conversation and diffs is written while the agent works. Every attempt of a run ends in
exactly one record. If the run itself must stop, the record is written on resume.
``validate-tasks`` and ``tasks attack`` run attempts the same way, without recording them.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import attrs

from agentbench_core.errors import AgentBenchError, DeadlineExceeded, Interrupted, RunStoppedError, SetupError
from agentbench_core.evidence.store import Store
from agentbench_core.run.attempt.agent import AgentPhase
from agentbench_core.run.attempt.auditing import audit_attempt
from agentbench_core.run.attempt.calibration import calibration
from agentbench_core.run.attempt.change import FrozenChange, freeze
from agentbench_core.run.attempt.final_state import save_final_state
from agentbench_core.run.attempt.preparation import Baseline, Prepared
from agentbench_core.run.attempt.record import AttemptResult, Conclusion, write_evidence
from agentbench_core.run.attempt.scoring import ScoringRun
from agentbench_core.run.attempt.session import Session
from agentbench_core.run.attempt.writing import AttemptWriter
from agentbench_core.run.metering.resources import HostCounters, PhaseMonitor
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.values.events import InfrastructureError, Warning_
from agentbench_core.values.failures import UNSCORED, Outcome
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Score


def record_attempt(plan: AttemptPlan, session: Session, store: Store) -> None:
    """Run one attempt and record it. Raises RunStoppedError if the run cannot continue."""
    writer = AttemptWriter(plan, store, session.observer)
    result = run_attempt(plan, session, writer.recording)
    try:
        write_evidence(plan, result, writer.files, setup=session.shared.setup_output(plan.task))
    except OSError as error:
        writer.log.emit(Warning_(message=f"evidence is incomplete: {error}"))
    writer.finish(lambda: Conclusion.of(result))  # if Conclusion.of raises, the record is an infrastructure error


def run_attempt(
    plan: AttemptPlan,
    session: Session,
    recording: Recording,
    *,
    known_baseline: Baseline | None = None,
    score_empty: bool = False,
    per_test: bool = False,
) -> AttemptResult:
    """Run the phases until one ends the attempt: for a run, and for validating and attacking tasks.

    Args:
        plan: the agent, the task and the scorer.
        session: state shared with other attempts.
        recording: destination of events and evidence.
        known_baseline: use this baseline, and continue even if it makes the task invalid, so that validation can report
            every broken rule of a task, not only the first.
        score_empty: also score an empty change.
        per_test: report the result of each test even if the task lists no expected tests.

    Raises:
        RunStoppedError: records can no longer be written, or the environment differs from the one that recorded
            attempts used. All other errors are part of the result.
    """
    attempt = _Attempt(
        plan=plan,
        session=session,
        recording=recording,
        known_baseline=known_baseline,
        score_empty=score_empty,
        per_test=per_test,
    )
    try:
        attempt.run()
    except RunStoppedError:
        raise
    except BaseException as error:  # noqa: BLE001 - every end is recorded, even a scorer's SystemExit
        attempt.result.outcome = attempt.outcome_of(error)
        attempt.result.error = error
    return attempt.result


@attrs.define(kw_only=True)
class _Attempt:
    plan: AttemptPlan
    session: Session
    recording: Recording
    known_baseline: Baseline | None
    score_empty: bool
    per_test: bool
    result: AttemptResult = attrs.field(factory=AttemptResult)
    deadline: Deadline | None = None
    monitor: PhaseMonitor = attrs.field(factory=PhaseMonitor)
    """The monitor of the current phase; between phases, of the next one."""

    def run(self) -> None:
        """Run the phases until one ends the attempt."""
        shared, task, result, log = self.session.shared, self.plan.task, self.result, self.recording.log
        result.queued_sec = round(result.started - self.session.opened, 6)
        with self._phase("source"):
            pristine = shared.source(task, self.monitor)
        with self._phase("environment"):
            prepared = result.prepared = shared.environment(task, pristine, log, self.monitor)
            self._check_environment(prepared.environment.digest)
            self.session.accept(self.plan, prepared.environment)
        with self._phase("baseline"):
            baseline = self.known_baseline or shared.baseline(task, prepared.environment, log, self.monitor)
            result.baseline = baseline
            early_end = None if self.known_baseline else (baseline.problem or self._calibration_problem(prepared))
        if early_end:
            result.outcome, result.problem = early_end
            return
        with self._fork(prepared) as workspace:
            # One deadline for agent and score. The freeze takes time from it, but is not cut off by it.
            deadline = self.deadline = self.session.stop.within(self.plan.limits.timeout_sec)
            with self._phase("agent"):
                models = self.session.models.get(self.plan.variant.name)
                agent = AgentPhase(
                    self.plan, prepared.environment, baseline, self.recording, deadline, models, self.monitor
                )
                result.agent = agent.run(workspace)
                result.outcome = result.agent.outcome  # how the agent ended; the record combines it with the score
            with self._phase("freeze"), shared.cpu_slots.slot() as waited:
                deadline.extend(waited)
                self.monitor.add_wait(waited)
                change = result.change = freeze(shared.snapshots, prepared.base, workspace, task)
                self._save_files(prepared, change)
        # The change of an agent that gave up is also scored. After a timeout, no time is left, and the score is a
        # failure. UNSCORED are infrastructure errors.
        if (change.included or self.score_empty) and result.outcome not in UNSCORED:
            with self._phase("score"):
                result.score = self._score(prepared, change, deadline)
        if result.outcome not in UNSCORED:
            snapshots, directory = shared.snapshots, self.recording.directory
            result.audit_labels = audit_attempt(self.plan, prepared, baseline, change, snapshots, directory)

    def _check_environment(self, digest: str) -> None:
        before = self.plan.environment_digest
        if before not in (None, digest):
            raise RunStoppedError(
                f"the environment for {self.plan.task.spec.id} has changed since this run started: "
                f"{before} -> {digest}",
                remedy="Restore its image or interpreter, or accept mixed environments with --allow-changes.",
            )

    def _calibration_problem(self, prepared: Prepared) -> tuple[Outcome, str] | None:
        """Outcome and reason if calibration rules out scoring this task, found before an agent causes any cost."""
        known = calibration(self.plan, prepared, self.session.shared, self.recording.log, waited=self.monitor.add_wait)
        if known and known.obstacle:
            return Outcome.SETUP_FAILED, known.obstacle
        return (Outcome.INVALID_TASK, known.not_failing) if known and known.not_failing else None

    def _score(self, prepared: Prepared, change: FrozenChange, deadline: Deadline) -> Score:
        scoring = ScoringRun(
            plan=self.plan,
            prepared=prepared,
            shared=self.session.shared,
            recording=self.recording,
            per_test=self.per_test,
            monitor=self.monitor,
        )
        return scoring.score(change, deadline)

    def _save_files(self, prepared: Prepared, change: FrozenChange) -> None:
        if self.recording.directory is None:
            return
        self.recording.files.write("diffs/final.patch", change.diff)
        if self.plan.artifacts.keep_workspace:
            snapshots, commit = self.session.shared.snapshots, self.plan.task.spec.repo.commit
            for missing in save_final_state(change, commit, prepared.base.tree, snapshots, self.recording.files):
                self.recording.log.emit(Warning_(message=f"not saved in repo/: {missing}"))

    @contextlib.contextmanager
    def _fork(self, prepared: Prepared) -> Iterator[Path]:
        shared = self.session.shared
        environment = prepared.environment
        workspace = shared.fork(self.plan.task, environment, "workspace", hidden=False, waited=self.monitor.add_wait)
        try:
            yield workspace
        finally:
            shared.discard(workspace)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Wait for disk space, then time and monitor a phase. Raises Interrupted if the run was stopped."""
        self.session.stop.check()
        waited = self.session.space.wait()
        self.monitor.add_wait(waited)
        if self.deadline is not None:
            self.deadline.extend(waited)
        self.session.observer.phase_started(self.plan.attempt_id, name)
        host = HostCounters.read()
        started = time.monotonic()
        try:
            yield
        finally:
            self.result.timings[name] = round(time.monotonic() - started, 6)
            self.result.load[name] = self.monitor.ended(host.until(HostCounters.read()))
            self.monitor = PhaseMonitor()

    def outcome_of(self, error: BaseException) -> Outcome:
        """Record an exception from a phase as the attempt's problem, and return its outcome."""
        if isinstance(error, Interrupted):
            self.result.problem = error.message
            return Outcome.INTERRUPTED
        self.result.problem = str(error) if isinstance(error, AgentBenchError) else traceback.format_exc()
        self.recording.log.emit(InfrastructureError(message=self.result.problem))
        if isinstance(error, SetupError):
            self.result.facts = error.facts
        before_agent = self.result.agent is None and "agent" not in self.result.timings
        if isinstance(error, SetupError) or (isinstance(error, DeadlineExceeded) and before_agent):
            return Outcome.SETUP_FAILED
        return Outcome.SANDBOX_ERROR
