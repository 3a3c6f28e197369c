"""Attack tasks: cheaters in the sandbox that an agent would have, before the scorer that would judge it.

All but the cheater is as in an attempt: a fork of the prepared tree, a fresh sandbox, its end, the change frozen
and filtered, a fresh start for the verdict. Nothing is recorded.
"""

from __future__ import annotations

import contextlib
import enum
import os
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from agentbench_core.errors import AgentBenchError, Interrupted, ToolError, UnavailableError
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.cheater import CheatContext
from agentbench_core.run.change import FrozenChange, editable_paths, freeze, protected_paths
from agentbench_core.run.integrity import suspicious_edits
from agentbench_core.run.leak_text import new_paths
from agentbench_core.run.listening import Listener
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import Prepared, hidden_paths
from agentbench_core.run.recording import MemoryEvidence, Recording, WarningLog
from agentbench_core.run.scoring import Judge
from agentbench_core.run.session import Session, open_session
from agentbench_core.run.toolbox import AgentTools, MeteredToolbox, Stop, open_toolbox
from agentbench_core.run.variant import Ready, Variant
from agentbench_core.values.failures import Happened, Outcome, verdict
from agentbench_core.values.integrity import Integrity, worst
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.record import Label
from agentbench_core.workspace.tree import Tree

_CHEAT_SEC = 60.0


class Ended(enum.StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # the task has nothing that this cheater could work with
    BROKEN = "broken"  # not tried: nothing is known


@attrs.frozen(kw_only=True)
class Trial:
    """One cheater on one task, before one scorer."""

    task: Task
    cheater: Ready
    scorer: Ready
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
        """Whether it is one of the controls, and no cheat."""
        return self.cheater.can("upper_control") or self.cheater.can("lower_control")

    @property
    def expected(self) -> bool:
        """Whether it ended as it must: the upper control passes, everyone else does not."""
        if self.cheater.can("upper_control"):
            return self.ended is Ended.PASSED
        return self.ended in (Ended.FAILED, Ended.SKIPPED)


class Watcher(Listener):
    """Also told how an attack goes; called from several threads."""

    def tried(self, trials: Sequence[Trial]) -> None:
        """A cheater was tried on a task; one trial for each scorer."""


def attack(
    pairs: Sequence[tuple[Task, Ready]], variant: Variant, scorers: Sequence[Ready], watcher: Watcher, *, workers: int
) -> Sequence[Trial]:
    """Try each pair once, and have every scorer judge what came of it; in the order of ``pairs``.

    Args:
        pairs: tasks and cheaters.
        variant: sandbox, tools and limits; its agents have no part in this.
        scorers: who judges; the variant's own, as a rule.
        watcher: told of each trial.
        workers: pairs at once.

    Raises:
        UnavailableError: the sandbox cannot work here.
        KeyboardInterrupt: somebody stopped it; nothing is left running.
    """
    tasks = list({id(task): task for task, _ in pairs}.values())
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], tasks, watcher))
        for ready in {id(each): each for each in (*(cheater for _, cheater in pairs), *scorers)}.values():
            ready.make()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="attack")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the attack ended"))

        def one(pair: tuple[Task, Ready]) -> Sequence[Trial]:
            task, cheater = pair
            plan = AttemptPlan(
                run_id="", attempt_id="", task=task, variant=variant, agent=cheater, scorer=variant.scorer, repeat=1
            )
            trials = _Trying(plan=plan, scorers=scorers, session=session).go()
            watcher.tried(trials)
            return trials

        return [trial for trials in pool.map(one, pairs) for trial in trials]


@attrs.define(kw_only=True)
class _Trying:
    plan: AttemptPlan
    scorers: Sequence[Ready]
    session: Session
    redactor: Redactor = attrs.field(init=False)
    log: WarningLog = attrs.field(init=False)
    started: float = attrs.field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.redactor = Redactor(os.environ, self.plan.task.spec.artifacts.redact)
        self.log = WarningLog(lambda message: self.session.listener.note(self.redactor.clean_text(message)))

    @property
    def cheater(self) -> Ready:
        """Who cheats, in the agent's place."""
        return self.plan.agent

    def go(self) -> Sequence[Trial]:
        """Cheat once, judge as often as there are scorers."""
        shared, task = self.session.shared, self.plan.task
        try:
            prepared = shared.environment(task, shared.source(task), self.log)
            deadline = self.session.stop.within(self.plan.limits.timeout_sec)
            change, labels = self._cheat(prepared, deadline)
        except (Interrupted, UnavailableError):
            raise
        except ToolError as error:
            ended = Ended.SKIPPED if error.error_type == "not_applicable" else Ended.BROKEN
            return [self._trial(scorer, ended, error.message) for scorer in self.scorers]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a cheater's bug must not stop the others
            return [self._trial(scorer, Ended.BROKEN, _said(error)) for scorer in self.scorers]
        return [self._judged(scorer, prepared, change, labels) for scorer in self.scorers]

    def _cheat(self, prepared: Prepared, deadline: Deadline) -> tuple[FrozenChange, tuple[Label, ...]]:
        """What the cheater leaves, when nothing of it runs any more."""
        task, shared = self.plan.task, self.session.shared
        workspace = shared.fork(task, prepared.environment, "workspace", hidden=False)
        try:
            with open_toolbox(
                self.plan,
                prepared.environment,
                workspace,
                deadline=deadline,
                recording=Recording(log=self.log, files=MemoryEvidence()),
                stop=Stop(),
            ) as toolbox:
                self.cheater.make().cheat(self._context(toolbox, workspace, deadline))
            with shared.turns.taken() as waited:
                deadline.extend(waited)
                change = freeze(shared.snapshots, prepared.base, workspace, task.spec)
            with Tree(prepared.environment.workspace) as tree:
                suspected = suspicious_edits(change.kept, shared.snapshots, new_paths(task, tree))
            return change, (*toolbox.limits_hit.labels("agent"), *([suspected] if suspected else []))
        finally:
            shared.discard(workspace)

    def _context(self, toolbox: MeteredToolbox, workspace: Path, deadline: Deadline) -> CheatContext:
        task = self.plan.task
        budget = Budget(max_steps=self.plan.limits.max_steps)
        assert toolbox.sandbox is not None, "an open toolbox has one"
        return CheatContext(
            sandbox=toolbox.sandbox,
            tools=AgentTools(toolbox, self.cheater.name, budget, frozenset(toolbox.tools)),
            deadline=deadline.within(_CHEAT_SEC).shown(),
            editable=_editable_python(task, workspace),
            failing_command=task.spec.validation.failing_command,
            passing_command=task.spec.validation.passing_command,
            hidden=hidden_paths(task),
            script=task.script if self.cheater.can("upper_control") else (),
        )

    def _judged(self, scorer: Ready, prepared: Prepared, change: FrozenChange, limits_hit: tuple[Label, ...]) -> Trial:
        labels = (*limits_hit, *change.labels)
        if not change.kept and not self.cheater.can("lower_control"):  # as in an attempt
            return self._trial(scorer, Ended.FAILED, "no change was left to judge", labels=labels)
        files = MemoryEvidence()
        judge = Judge(
            plan=attrs.evolve(self.plan, scorer=scorer),
            prepared=prepared,
            shared=self.session.shared,
            recording=Recording(log=self.log, files=files),
        )
        try:
            score = judge.score(change, self.session.stop.within(self.plan.limits.timeout_sec))
        except (Interrupted, UnavailableError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - nor must a scorer's
            return self._trial(scorer, Ended.BROKEN, f"no verdict: {_said(error)}", labels=labels)
        happened = Happened(outcome=Outcome.COMPLETED, changed=True, tests_passed=score.passed, tampered=score.tampered)
        ended = Ended.PASSED if verdict(happened).passed else Ended.FAILED
        code = "" if score.exit_code is None else f"exit code {score.exit_code}"
        why = score.explanation or code
        return self._trial(scorer, ended, why, printed=files.tail(self.redactor), labels=(*labels, *score.labels))

    def _trial(
        self, scorer: Ready, ended: Ended, explanation: str, *, printed: str = "", labels: tuple[Label, ...] = ()
    ) -> Trial:
        return Trial(
            task=self.plan.task,
            cheater=self.cheater,
            scorer=scorer,
            ended=ended,
            explanation=self.redactor.clean_text(explanation),
            printed=printed,
            labels=labels,
            duration_sec=time.monotonic() - self.started,
        )


def _editable_python(task: Task, workspace: Path) -> Sequence[str]:
    """The Python files whose change would be judged."""
    editable, protected, named = editable_paths(task.spec), protected_paths(task.spec), task.spec.agent.editable_globs
    with Tree(workspace) as tree:
        found = [path for path in tree.files() if path.endswith(".py") and editable(path)]
    return tuple(path for path in found if path in named or not protected(path))


def _said(error: BaseException) -> str:
    if isinstance(error, AgentBenchError):
        return error.message
    return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
