"""Run adversarial agents against tasks, and score them like ordinary attempts. Nothing is recorded."""

from __future__ import annotations

import contextlib
import enum
import os
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs

from agentbench_core import AgentBenchError, Integrity, Interrupted, Label, Outcome, UnavailableError
from agentbench_core.harness import (
    ADVERSARY,
    AgentPhaseResult,
    AttemptPlan,
    AttemptResult,
    ConfiguredComponent,
    Happened,
    MemoryEvidence,
    Recording,
    Redactor,
    RunObserver,
    Session,
    Task,
    Variant,
    WarningLog,
    open_session,
    run_attempt,
    verdict,
    worst,
)


class TrialOutcome(enum.StrEnum):
    """The result of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # the task has nothing for this agent to attack
    BROKEN = "broken"  # the agent, a scorer or the sandbox failed: the result is unknown


@attrs.frozen(kw_only=True)
class Trial:
    """One agent on one task, with one scorer."""

    task: Task
    agent: ConfiguredComponent
    scorer: ConfiguredComponent
    ended: TrialOutcome
    explanation: str
    printed: str = ""
    """The end of the tests' output."""
    labels: tuple[Label, ...] = ()
    duration_sec: float = 0.0

    @property
    def integrity(self) -> Integrity:
        """The worst integrity among the trial's labels."""
        return worst(label.name for label in self.labels)

    @property
    def control(self) -> bool:
        """Whether the agent is a control, not an adversary."""
        return not self.agent.can(ADVERSARY)

    @property
    def must_pass(self) -> bool:
        """Whether the agent is the positive control, which applies the reference solution."""
        return self.agent.can("needs_oracle")

    @property
    def expected(self) -> bool:
        """Whether the positive control passed, or any other agent failed or was skipped."""
        if self.must_pass:
            return self.ended is TrialOutcome.PASSED
        return self.ended in (TrialOutcome.FAILED, TrialOutcome.SKIPPED)


def run_trials(
    pairs: Sequence[tuple[Task, ConfiguredComponent]],
    variant: Variant,
    scorers: Sequence[ConfiguredComponent],
    observer: RunObserver,
    *,
    workers: int,
    tried: Callable[[Sequence[Trial]], None] = lambda trials: None,
) -> Sequence[Trial]:
    """Run each pair once, score the result with every scorer, and return the trials in the order of ``pairs``.

    Args:
        pairs: tasks with their agents, which are adversaries or controls.
        variant: sandbox, tools and limits; its agents are not used.
        scorers: the scorers; the first one is also the scorer of the attempts.
        observer: receives notes and the progress of attempts.
        workers: number of pairs to run in parallel.
        tried: called from several threads after each pair, with one trial for each scorer.

    Raises:
        UnavailableError: the sandbox is not available.
        KeyboardInterrupt: interrupted by the user; no process is left running.
    """
    tasks = list({id(task): task for task, _ in pairs}.values())
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], tasks, observer))
        for ready in {id(each): each for each in (*(agent for _, agent in pairs), *scorers)}.values():
            ready.make()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="attack")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the attack ended"))

        def run_pair(pair: tuple[Task, ConfiguredComponent]) -> Sequence[Trial]:
            task, agent = pair
            plan = AttemptPlan(
                run_id="", attempt_id="", task=task, variant=variant, agent=agent, scorer=scorers[0], repeat=1
            )
            trials = _TrialRun(plan=plan, scorers=scorers, session=session).run()
            tried(trials)
            return trials

        return [trial for trials in pool.map(run_pair, pairs) for trial in trials]


@attrs.define(kw_only=True)
class _TrialRun:
    plan: AttemptPlan
    scorers: Sequence[ConfiguredComponent]
    session: Session
    redactor: Redactor = attrs.field(init=False)
    started: float = attrs.field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.redactor = Redactor(os.environ, self.plan.artifacts.redact)

    def run(self) -> Sequence[Trial]:
        """Run one attempt, and score it with each scorer."""
        task = self.plan.task
        log = WarningLog(lambda message: self.session.observer.note(self.redactor.clean_text(message)))
        recording = Recording(log=log, files=MemoryEvidence())
        try:
            baseline = self.session.baseline(task, log)
            # The no-op control is scored although it makes no change: it shows that the tests fail without one.
            idle = not self.plan.agent.can(ADVERSARY)
            result = run_attempt(self.plan, self.session, recording, known_baseline=baseline, score_empty=idle)
            if result.error is not None:
                raise result.error
            self.session.stop.check()
        except (Interrupted, UnavailableError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one broken agent must not stop the others
            return [
                self._trial(scorer, TrialOutcome.BROKEN, f"no verdict: {_described(error)}") for scorer in self.scorers
            ]
        return [self._scored(scorer, result, recording) for scorer in self.scorers]

    def _scored(self, scorer: ConfiguredComponent, result: AttemptResult, recording: Recording) -> Trial:
        agent, change = result.agent, result.change
        assert agent is not None
        assert change is not None
        if agent.outcome is not Outcome.COMPLETED:
            return self._trial(scorer, *self._not_tried(agent))
        labels = (*agent.labels, *change.labels, *result.audit_labels)
        score = result.score
        if score is not None and scorer is not self.plan.scorer:
            try:
                score = self.session.score(attrs.evolve(self.plan, scorer=scorer), result, recording)
            except (Interrupted, UnavailableError):
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken scorer must not stop the others either
                return self._trial(scorer, TrialOutcome.BROKEN, f"no verdict: {_described(error)}", labels=labels)
        if score is None:
            return self._trial(scorer, TrialOutcome.FAILED, "the agent made no scorable changes", labels=labels)
        happened = Happened(outcome=Outcome.COMPLETED, changed=True, tests_passed=score.passed, tampered=score.tampered)
        ended = TrialOutcome.PASSED if verdict(happened).passed else TrialOutcome.FAILED
        code = "" if score.exit_code is None else f"exit code {score.exit_code}"
        assert isinstance(recording.files, MemoryEvidence)
        return self._trial(
            scorer,
            ended,
            score.explanation or code,
            printed=recording.files.tail(self.redactor),
            labels=(*labels, *score.labels),
        )

    def _not_tried(self, agent: AgentPhaseResult) -> tuple[TrialOutcome, str]:
        skipped = agent.outcome is Outcome.GAVE_UP and self.plan.agent.can(ADVERSARY)
        return (TrialOutcome.SKIPPED if skipped else TrialOutcome.BROKEN), agent.message

    def _trial(
        self,
        scorer: ConfiguredComponent,
        ended: TrialOutcome,
        explanation: str,
        *,
        printed: str = "",
        labels: tuple[Label, ...] = (),
    ) -> Trial:
        return Trial(
            task=self.plan.task,
            agent=self.plan.agent,
            scorer=scorer,
            ended=ended,
            explanation=self.redactor.clean_text(explanation),
            printed=printed,
            labels=labels,
            duration_sec=time.monotonic() - self.started,
        )


def _described(error: BaseException) -> str:
    if isinstance(error, AgentBenchError):
        return error.message
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"
