"""One check of a task: its tests must fail without the fix, and pass with its reference solution."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping

import attrs

from agentbench_core import (
    AgentBenchError,
    AgentResult,
    AttemptContext,
    Calibration,
    Change,
    Interrupted,
    Output,
    SandboxError,
    Score,
    SetupError,
    Tree,
    UnavailableError,
    name_some,
)
from agentbench_core.harness import (
    UNSCORED,
    ApplyReference,
    AttemptPlan,
    AttemptResult,
    Baseline,
    ConfiguredComponent,
    MemoryEvidence,
    Prepared,
    Recording,
    Redactor,
    RunStoppedError,
    Session,
    Task,
    TaskAuditing,
    Variant,
    WarningLog,
    calibration,
    run_attempt,
)
from agentbench_tasks.failing_command import notes_on
from agentbench_tasks.rules import NOT_AUDITED, NOT_PROVEN, REMEDIES, Note, Problem, Rule


class DoNothing:
    """An agent that changes nothing, which must not pass."""

    def solve(self, context: AttemptContext) -> AgentResult:
        """End immediately."""
        return AgentResult()


_IDLE = ConfiguredComponent.own_agent("idle", DoNothing())
_REFUSED = {"late": Rule.ORACLE_IN_TIME, "not_editable": Rule.ORACLE_MAY_EDIT, "failed": Rule.ORACLE_APPLIES}


@attrs.frozen(kw_only=True)
class TaskCheck:
    """The result of one check. ``before`` and ``after`` are the results of tests without and with the solution."""

    problems: tuple[Problem, ...]
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    calibration: Calibration | None
    """The scorer's calibration; ``None`` if the scorer does not calibrate."""
    audited: tuple[Problem, ...]
    """The problems found by auditors, which run only in the first check."""
    notes: tuple[Note, ...]
    """Notes: facts that are no problems but worth knowing."""
    duration_sec: float


def check_task(
    task: Task,
    variant: Variant,
    session: Session,
    *,
    per_test: bool,
    audited: tuple[Problem, ...] | None = None,
) -> TaskCheck:
    """Check a task once, in fresh forks and sandboxes; only its setup is shared.

    ``audited`` contains the problems that auditors found in an earlier check. They only depend on the setup.

    Raises:
        Interrupted: the user stopped the check.
        UnavailableError: this machine lacks a requirement.
    """
    started = time.monotonic()
    plan = AttemptPlan(
        run_id="", attempt_id="", task=task, variant=variant, agent=_IDLE, scorer=variant.scorer, repeat=1
    )
    redactor = Redactor(os.environ, plan.artifacts.redact)
    log = WarningLog(lambda message: session.observer.note(redactor.clean_text(message)))
    checking = _Checking(plan=plan, session=session, log=log, redactor=redactor, per_test=per_test, audited=audited)
    try:
        checking.run()
    except (Interrupted, UnavailableError, RunStoppedError):
        raise
    except AgentBenchError as error:
        checking.add(Rule.CHECKED, f"the check failed: {error}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken scorer or sandbox must not stop other tasks
        trace = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        printed = MemoryEvidence(Output(head=trace))
        checking.add(Rule.CHECKED, f"the check failed: {type(error).__name__}: {error}", printed)
    return TaskCheck(
        problems=tuple(checking.problems),
        before=checking.before,
        after=checking.after,
        calibration=checking.calibration,
        audited=checking.audited or (),
        notes=checking.notes,
        duration_sec=time.monotonic() - started,
    )


@attrs.define(kw_only=True)
class _Checking:
    plan: AttemptPlan
    session: Session
    log: WarningLog
    redactor: Redactor
    per_test: bool
    audited: tuple[Problem, ...] | None
    problems: list[Problem] = attrs.field(factory=list)
    before: Mapping[str, str] | None = None
    after: Mapping[str, str] | None = None
    calibration: Calibration | None = None
    notes: tuple[Note, ...] = ()
    solved: tuple[Change, ...] = ()
    """The reference solution's change."""

    def add(self, rule: Rule, reason: str, printed: MemoryEvidence | None = None) -> None:
        """Add a problem."""
        output = printed.tail(self.redactor) if printed else ""
        reason = self.redactor.clean_text(reason)
        self.problems.append(Problem(rule=rule, reason=reason, remedy=REMEDIES[rule], output=output))

    def run(self) -> None:
        """Check all rules. A broken rule does not prevent later checks, unless the setup failed."""
        task, shared = self.plan.task, self.session.shared
        if not task.script:
            self.notes = (NOT_PROVEN,)
        if not self.plan.variant.auditors:
            self.notes += (NOT_AUDITED,)
        try:
            prepared = shared.environment(task, shared.source(task), self.log)
        except SetupError as error:
            self.add(Rule.SETUP, str(error), MemoryEvidence(*shared.setup_output(task)))
            return
        with Tree(prepared.environment.workspace) as tree:
            self.notes += notes_on(task, tree)
        baseline = self._baseline(prepared)
        self.calibration = calibration(self.plan, prepared, shared, self.log, refresh=True)
        self._empty_patch(baseline)
        if task.script:
            self._oracle(baseline)
        if not self.problems and self.calibration and (self.calibration.obstacle or self.calibration.not_failing):
            self.add(Rule.BASELINE_RUNS, self.calibration.obstacle or self.calibration.not_failing)
        self._audit(prepared, baseline)

    def _audit(self, prepared: Prepared, baseline: Baseline) -> None:
        if self.audited is None:
            auditing = TaskAuditing(
                plan=self.plan,
                shared=self.session.shared,
                prepared=prepared,
                baseline=baseline,
                solved=self.solved,
                log=self.log,
                note=self.log.note,
            )
            self.audited = tuple(
                Problem(rule=auditor.rule, reason=self.redactor.clean_text(auditor.reason), remedy=auditor.remedy)
                for auditor in auditing.problems(self.session.stop)
            )
        self.problems += [attrs.evolve(problem) for problem in self.audited]  # counted once per check

    def _baseline(self, prepared: Prepared) -> Baseline:
        self.session.stop.check()
        baseline = self.session.shared.run_baseline(self.plan.task, prepared.environment, self.log)
        if baseline.problem:
            ended = baseline.with_hidden
            late, passed = Rule.BASELINE_IN_TIME, Rule.BASELINE_FAILS
            rule = late if ended.timed_out else passed if ended.ok else Rule.BASELINE_RUNS
            self.add(rule, baseline.problem[1], MemoryEvidence(ended.stdout, ended.stderr))
        return baseline

    def _attempt(
        self, agent: ConfiguredComponent, baseline: Baseline, *, score_empty: bool = False
    ) -> tuple[AttemptResult, MemoryEvidence]:
        """The result of an attempt with this agent, and its last output. Raises the error that ended it, if any."""
        printed = MemoryEvidence()
        result = run_attempt(
            attrs.evolve(self.plan, agent=agent),
            self.session,
            Recording(log=self.log, files=printed),
            known_baseline=baseline,
            score_empty=score_empty,
            per_test=self.per_test,
        )
        if result.error is not None:
            raise result.error
        self.session.stop.check()
        if result.outcome in UNSCORED and result.agent:
            raise SandboxError(result.agent.message)
        return result, printed

    def _empty_patch(self, baseline: Baseline) -> None:
        result, printed = self._attempt(_IDLE, baseline, score_empty=True)
        score = result.score
        assert score is not None, "an empty change must have a score"
        if score.passed:
            message = "the scorer passes the empty patch"
            self.add(Rule.EMPTY_PATCH_FAILS, message, printed)
        if score.timed_out:
            if not self.plan.task.spec.validation.failing_timeout_ok:
                message = "the passing command times out on the unchanged tree"
                self.add(Rule.EMPTY_PATCH_IN_TIME, message, printed)
            return
        self.before = score.tests
        if score.tests is not None:
            self._expected_tests(score.tests)

    def _expected_tests(self, before: Mapping[str, str]) -> None:
        expected = self.plan.task.spec.validation
        stale = [name for name in expected.fail_to_pass if before.get(name) == "passed"]
        if stale:
            self.add(Rule.FAIL_TO_PASS, f"fail_to_pass contains tests that already pass: {name_some(stale)}")
        failing = [f"{t} ({before.get(t, 'not run')})" for t in expected.pass_to_pass if before.get(t) != "passed"]
        if failing:
            self.add(
                Rule.PASS_TO_PASS, f"pass_to_pass contains tests that do not pass before the fix: {name_some(failing)}"
            )

    def _oracle(self, baseline: Baseline) -> None:
        applying = ApplyReference()
        result, printed = self._attempt(ConfiguredComponent.own_agent("oracle", applying, "needs_oracle"), baseline)
        if applying.refused:
            self.add(_REFUSED[applying.refused.how], str(applying.refused))
            return
        change, score = result.change, result.score
        assert change is not None, "an agent that has ended must have a change, possibly an empty one"
        self.solved = change.included
        if change.excluded:
            names = ", ".join(label.name for label in change.labels)
            files = name_some(change.excluded)
            message = f"the reference solution changes files that agents must not change ({names}): {files}"
            self.add(Rule.ORACLE_MAY_EDIT, message)
        if not change.included:
            self.add(Rule.ORACLE_CHANGES, "no part of the reference solution's change can be scored")
            return
        assert score is not None, "a change must have a score"
        self.after = score.tests
        self._passes(score, printed)

    def _passes(self, score: Score, printed: MemoryEvidence) -> None:
        if score.timed_out:
            self.add(Rule.ORACLE_IN_TIME, "the passing command times out with the reference solution", printed)
        elif not score.passed:
            code = "" if score.exit_code is None else f" (exit code {score.exit_code})"
            why = f": {score.explanation}" if score.explanation else ""
            self.add(Rule.ORACLE_PASSES, f"the reference solution does not pass{code}{why}", printed)
