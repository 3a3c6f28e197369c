"""Attack tasks: adversarial agents in the place of others, each judged as an attempt is. Nothing is recorded."""

from __future__ import annotations

import contextlib
import enum
import os
import time
import traceback
from collections.abc import Sequence
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


class Ended(enum.StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # the task has nothing that this agent could work with
    BROKEN = "broken"  # not tried: nothing is known


@attrs.frozen(kw_only=True)
class Trial:
    """One agent on one task, before one scorer."""

    task: Task
    agent: ConfiguredComponent
    scorer: ConfiguredComponent
    ended: Ended
    explanation: str
    printed: str = ""
    """The end of what the tests printed."""
    labels: tuple[Label, ...] = ()
    duration_sec: float = 0.0

    @property
    def integrity(self) -> Integrity:
        """The worst word of its labels."""
        return worst(label.name for label in self.labels)

    @property
    def control(self) -> bool:
        """Whether it is one of the controls, and no adversary."""
        return not self.agent.can(ADVERSARY)

    @property
    def must_pass(self) -> bool:
        """Whether it is the upper control, which applies the reference solution."""
        return self.agent.can("needs_oracle")

    @property
    def expected(self) -> bool:
        """Whether it ended as it must: the upper control passes, everyone else does not."""
        if self.must_pass:
            return self.ended is Ended.PASSED
        return self.ended in (Ended.FAILED, Ended.SKIPPED)


class Watcher(RunObserver):
    """Also told how an attack goes; called from several threads."""

    def tried(self, trials: Sequence[Trial]) -> None:
        """An agent was tried on a task; one trial for each scorer."""


def attack(
    pairs: Sequence[tuple[Task, ConfiguredComponent]],
    variant: Variant,
    scorers: Sequence[ConfiguredComponent],
    watcher: Watcher,
    *,
    workers: int,
) -> Sequence[Trial]:
    """Try each pair once, and have every scorer judge what came of it; in the order of ``pairs``.

    Args:
        pairs: tasks and agents: adversaries and controls.
        variant: sandbox, tools and limits; its agents have no part in this.
        scorers: who judges; the first is that of the attempts.
        watcher: told of each trial.
        workers: pairs at once.

    Raises:
        UnavailableError: the sandbox cannot work here.
        KeyboardInterrupt: somebody stopped it; nothing is left running.
    """
    tasks = list({id(task): task for task, _ in pairs}.values())
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], tasks, watcher))
        for ready in {id(each): each for each in (*(agent for _, agent in pairs), *scorers)}.values():
            ready.make()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="attack")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the attack ended"))

        def one(pair: tuple[Task, ConfiguredComponent]) -> Sequence[Trial]:
            task, agent = pair
            plan = AttemptPlan(
                run_id="", attempt_id="", task=task, variant=variant, agent=agent, scorer=scorers[0], repeat=1
            )
            trials = _Trying(plan=plan, scorers=scorers, session=session).go()
            watcher.tried(trials)
            return trials

        return [trial for trials in pool.map(one, pairs) for trial in trials]


@attrs.define(kw_only=True)
class _Trying:
    plan: AttemptPlan
    scorers: Sequence[ConfiguredComponent]
    session: Session
    redactor: Redactor = attrs.field(init=False)
    started: float = attrs.field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.redactor = Redactor(os.environ, self.plan.task.spec.artifacts.redact)

    def go(self) -> Sequence[Trial]:
        """One attempt, judged by each scorer."""
        task = self.plan.task
        log = WarningLog(lambda message: self.session.observer.note(self.redactor.clean_text(message)))
        recording = Recording(log=log, files=MemoryEvidence())
        try:
            baseline = self.session.baseline(task, log)
            # The lower control is judged although it leaves no change: it shows that the tests fail without one.
            idle = not self.plan.agent.can(ADVERSARY)
            found = run_attempt(self.plan, self.session, recording, baseline=baseline, judge_empty=idle)
            if found.error is not None:
                raise found.error
            self.session.stop.check()
        except (Interrupted, UnavailableError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one that breaks must not stop the others
            return [self._trial(scorer, Ended.BROKEN, f"no verdict: {_said(error)}") for scorer in self.scorers]
        return [self._judged(scorer, found, recording) for scorer in self.scorers]

    def _judged(self, scorer: ConfiguredComponent, found: AttemptResult, recording: Recording) -> Trial:
        agent, change = found.agent, found.change
        assert agent is not None
        assert change is not None
        if agent.outcome is not Outcome.COMPLETED:
            return self._trial(scorer, *self._not_tried(agent))
        labels = (*agent.labels, *change.labels, *found.audit_labels)
        score = found.score
        if score is not None and scorer is not self.plan.scorer:
            try:
                score = self.session.score(attrs.evolve(self.plan, scorer=scorer), found, recording)
            except (Interrupted, UnavailableError):
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - nor must a scorer's bug
                return self._trial(scorer, Ended.BROKEN, f"no verdict: {_said(error)}", labels=labels)
        if score is None:
            return self._trial(scorer, Ended.FAILED, "no change was left to judge", labels=labels)
        happened = Happened(outcome=Outcome.COMPLETED, changed=True, tests_passed=score.passed, tampered=score.tampered)
        ended = Ended.PASSED if verdict(happened).passed else Ended.FAILED
        code = "" if score.exit_code is None else f"exit code {score.exit_code}"
        assert isinstance(recording.files, MemoryEvidence)
        return self._trial(
            scorer,
            ended,
            score.explanation or code,
            printed=recording.files.tail(self.redactor),
            labels=(*labels, *score.labels),
        )

    def _not_tried(self, agent: AgentPhaseResult) -> tuple[Ended, str]:
        skipped = agent.outcome is Outcome.GAVE_UP and self.plan.agent.can(ADVERSARY)
        return (Ended.SKIPPED if skipped else Ended.BROKEN), agent.message

    def _trial(
        self,
        scorer: ConfiguredComponent,
        ended: Ended,
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


def _said(error: BaseException) -> str:
    if isinstance(error, AgentBenchError):
        return error.message
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"
