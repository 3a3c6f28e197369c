"""One attempt, from source to score.

::

    source       pristine tree at the commit, no other history
    environment  set-up once per task, cached
    baseline     fresh start, failing_command must fail
    agent        fresh sandbox: agent.solve(context) -> llm, tools
    freeze       the agent's processes are dead; the change against the prepared tree, filtered
    score        fresh start of the same environment + change + protected files as they were

Whatever happens, an attempt ends in exactly one record.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from agentbench_core.errors import AgentBenchError, DeadlineExceeded, Interrupted, RunStoppedError, SetupError
from agentbench_core.evidence.attempt_files import AttemptFiles
from agentbench_core.evidence.store import Store
from agentbench_core.run.agent_phase import AgentPhase
from agentbench_core.run.attempt_log import AttemptLog
from agentbench_core.run.calibration import calibration
from agentbench_core.run.change import FrozenChange, freeze, keep_final_state
from agentbench_core.run.integrity import suspicions
from agentbench_core.run.listening import Listener
from agentbench_core.run.load import HostCounters, Watch
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import Baseline, Preparations, Prepared
from agentbench_core.run.records import Findings, explanation, make_record, write_facts
from agentbench_core.run.run_model import RunModel
from agentbench_core.run.scoring import Judge
from agentbench_core.run.space import Space
from agentbench_core.values.events import InfrastructureError, TaskStarted, Warning_
from agentbench_core.values.failures import UNSCORED, Outcome
from agentbench_core.values.integrity import Integrity
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import AttemptRecord, Label, Score


@attrs.frozen(kw_only=True)
class Bench:
    """What attempts share: prepared tasks, models by variant, the interrupt, and who listens."""

    shared: Preparations
    models: Mapping[str, RunModel]
    stop: Deadline
    space: Space
    listener: Listener
    opened: float = attrs.field(factory=time.monotonic)
    """When the attempts of the run began, or of this part of it, by the monotonic clock."""


def make_attempt(plan: AttemptPlan, bench: Bench, store: Store) -> AttemptRecord:
    """Make one attempt and record it. Raises RunStoppedError when records cannot be written any more."""
    task = plan.task.spec
    bench.listener.attempt_started(plan.attempt_id, plan.variant.name, task.id, plan.repeat)
    log = AttemptLog(store, plan.attempt_id)
    log.emit(TaskStarted(task_id=task.id, repeat=plan.repeat, supersedes=plan.supersedes), durable=True)
    attempt = _Attempt(plan=plan, bench=bench, files=store.attempt_files(task.id, plan.repeat), log=log)
    try:
        attempt.go()
    except RunStoppedError:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, and be it a scorer's SystemExit, ends in a record
        attempt.found.outcome = attempt.outcome_of(error)
    try:
        attempt.write_evidence()
    except OSError as error:
        log.emit(Warning_(message=f"evidence is incomplete: {error}"))
    record, why = attempt.conclusion()
    log.ended = True
    attempt.files.close()
    store.record(record, why)
    bench.listener.attempt_finished(record, why)
    return record


@attrs.define(kw_only=True)
class _Attempt:
    plan: AttemptPlan
    bench: Bench
    files: AttemptFiles
    log: AttemptLog
    found: Findings = attrs.field(factory=Findings)
    deadline: Deadline | None = None
    watch: Watch = attrs.field(factory=Watch)
    """Of this phase, or of the next one."""

    def go(self) -> None:
        """Go through the phases as far as they lead."""
        shared, task, found = self.bench.shared, self.plan.task, self.found
        found.queued_sec = round(found.started - self.bench.opened, 6)
        with self._phase("source"):
            pristine = shared.source(task, self.watch)
        with self._phase("environment"):
            prepared = found.prepared = shared.environment(task, pristine, self.log, self.watch)
            self._check_environment(prepared.environment.digest)
        with self._phase("baseline"):
            baseline = found.baseline = shared.baseline(task, prepared.environment, self.log, self.watch)
            trouble = baseline.trouble or self._calibration_trouble(prepared)
        if trouble:
            found.outcome, found.trouble = trouble
            return
        with self._fork(prepared) as workspace:
            deadline = self.deadline = self.bench.stop.within(self.plan.limits.timeout_sec)
            with self._phase("agent"):
                model = self.bench.models.get(self.plan.variant.name)
                agent = AgentPhase(
                    self.plan, prepared.environment, baseline, self.files, self.log, deadline, model, self.watch
                )
                found.agent = agent.run(workspace)
                found.outcome = found.agent.outcome
            with self._phase("freeze"), shared.turns.taken() as waited:
                deadline.extend(waited)
                self.watch.waited(waited)
                change = found.change = freeze(shared.snapshots, prepared.base, workspace, task.spec)
                self._keep(workspace, change)
        if change.kept and found.outcome not in UNSCORED:
            with self._phase("score"):
                found.score = self._score(prepared, change, deadline)
        if found.outcome not in UNSCORED:
            found.suspicions = self._suspicions(prepared, baseline, change)

    def _check_environment(self, digest: str) -> None:
        before = self.plan.environment_digest
        if before not in (None, digest):
            raise RunStoppedError(
                f"the environment of {self.plan.task.spec.id} is no longer what it was in this run: "
                f"{before} -> {digest}",
                remedy="Put back the image or the interpreter that it is made from, or mix the two with --changed-ok.",
            )

    def _calibration_trouble(self, prepared: Prepared) -> tuple[Outcome, str] | None:
        """Why the scorer cannot judge the task here, found out before an agent costs anything."""
        plan, shared, waited = self.plan, self.bench.shared, self.watch.waited
        known = calibration(plan, plan.variant.scorer, prepared, shared, self.log, waited=waited)
        if known and known.obstacle:
            return Outcome.SETUP_FAILED, known.obstacle
        return (Outcome.INVALID_TASK, known.not_failing) if known and known.not_failing else None

    def _score(self, prepared: Prepared, change: FrozenChange, deadline: Deadline) -> Score:
        judge = Judge(
            plan=self.plan,
            scorer=self.plan.variant.scorer,
            prepared=prepared,
            shared=self.bench.shared,
            files=self.files,
            log=self.log,
            watch=self.watch,
        )
        return judge.score(change, deadline)

    def _suspicions(self, prepared: Prepared, baseline: Baseline, change: FrozenChange) -> tuple[Label, ...]:
        """Labels beside the score. What cannot be looked at is suspect, and never a way out of being scored."""
        try:
            return suspicions(self.plan, prepared, baseline, change, self.bench.shared.snapshots, self.files.directory)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an agent left that nobody foresaw
            said = f"the attempt could not be looked at: {type(error).__name__}: {error}"
            return (Label(name=Integrity.TAMPER_SUSPECTED.value, evidence=said),)

    def _keep(self, workspace: Path, change: FrozenChange) -> None:
        self.files.write("diffs/final.patch", change.diff)
        if self.plan.task.spec.artifacts.keep_workspace:
            for left_out in keep_final_state(workspace, self.files):
                self.log.emit(Warning_(message=f"not kept in repo/: {left_out}"))

    def conclusion(self) -> tuple[AttemptRecord, str]:
        """The record and its explanation; of findings that make none, the record that says so."""
        try:
            return make_record(self.plan, self.found, self.files.directory), explanation(self.found)
        except Exception:  # noqa: BLE001 - one record each, also when a plugin gave what nobody foresaw
            self.found = Findings(outcome=Outcome.SANDBOX_ERROR, trouble=traceback.format_exc())
            return make_record(self.plan, self.found, self.files.directory), explanation(self.found)

    def write_evidence(self) -> None:
        """What lies beside the record, whatever the end: the task as used, logs, timings, environment."""
        task, found = self.plan.task, self.found
        self.files.write("task.yaml", task.text)
        full = task.spec.artifacts.full_logs
        self.files.log("setup", *self.bench.shared.setup_output(task), full=full)
        if found.baseline:
            self.files.log("failing", found.baseline.verdict.stdout, found.baseline.verdict.stderr, full=full)
        write_facts(self.plan, found, self.files)

    @contextlib.contextmanager
    def _fork(self, prepared: Prepared) -> Iterator[Path]:
        shared = self.bench.shared
        environment = prepared.environment
        workspace = shared.fork(self.plan.task, environment, "workspace", hidden=False, waited=self.watch.waited)
        try:
            yield workspace
        finally:
            shared.discard(workspace)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Time and watch a phase; do not begin it when the run is stopped, nor before there is room on the disk."""
        self.bench.stop.check()
        waited = self.bench.space.wait()
        self.watch.waited(waited)
        if self.deadline is not None:
            self.deadline.extend(waited)
        self.bench.listener.phase_started(self.plan.attempt_id, name)
        host = HostCounters.read()
        started = time.monotonic()
        try:
            yield
        finally:
            self.found.timings[name] = round(time.monotonic() - started, 6)
            self.found.load[name] = self.watch.ended(host.until(HostCounters.read()))
            self.watch = Watch()

    def outcome_of(self, error: BaseException) -> Outcome:
        """What an exception that left a phase says; agents' own ends never come here."""
        if isinstance(error, Interrupted):
            self.found.trouble = error.message
            return Outcome.INTERRUPTED
        self.found.trouble = str(error) if isinstance(error, AgentBenchError) else traceback.format_exc()
        self.log.emit(InfrastructureError(message=self.found.trouble))
        if isinstance(error, SetupError):
            self.found.facts = error.facts
        before_agent = self.found.agent is None and "agent" not in self.found.timings
        if isinstance(error, SetupError) or (isinstance(error, DeadlineExceeded) and before_agent):
            return Outcome.SETUP_FAILED
        return Outcome.SANDBOX_ERROR
