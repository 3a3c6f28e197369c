"""The attempts of a command, handed out to places. The only record of which place has which attempt."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import attrs
from ulid import ULID

from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.executor import RemoteWork
from agentbench_core.run.attempt.attempt import record_attempt
from agentbench_core.run.attempt.session import Session
from agentbench_core.run.attempt.writing import RunWriter
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.values.limits import LOOK_EVERY_SEC, Deadline

MOST_LOSSES = 3
"""How often an attempt can be lost with its place before the run stops."""

MOST_RETURNS = 100
"""How often it can be returned by places that cannot run it."""


@attrs.define(kw_only=True, eq=False)
class QueuedAttempt:
    """An attempt that is waiting or running."""

    plan: AttemptPlan
    run: RunWriter
    losses: int = 0
    """How often it has been lost so far."""
    returns: int = 0
    """How often it has been returned."""


class AttemptQueue:
    """Implements ``Work``. Attempts are grouped by task, since attempts on the same task share its environment."""

    def __init__(
        self,
        session: Session,
        runs: Sequence[RunWriter],
        places: int,
        remote: Callable[[AttemptQueue, float], RemoteWork],
    ) -> None:
        """``remote`` opens the queue for worker processes."""
        plans = ((plan, run) for run in runs for plan in run.plans)
        by_task = sorted(plans, key=lambda pair: (pair[0].task.spec.id, pair[0].repeat))
        self._session = session
        self._remote = remote
        self._waiting = deque(QueuedAttempt(plan=plan, run=run) for plan, run in by_task)
        self._tasks = {each.plan.task.spec.id: each.plan.task for each in self._waiting}
        self._running: set[QueuedAttempt] = set()
        self._changed = threading.Condition()
        self.places = places
        self.error: BaseException | None = None
        """The first error after which nothing more can be recorded."""

    @property
    def remaining(self) -> int:
        """See the contract."""
        with self._changed:
            return len(self._waiting) + len(self._running)

    @property
    def running(self) -> int:
        """Number of attempts that places run."""
        return len(self._running)

    @property
    def finished(self) -> bool:
        """See the contract."""
        with self._changed:
            return self.ended and not self._running

    @property
    def stop(self) -> Deadline:
        """See the contract."""
        return self._session.stop.shown()

    def note(self, message: str) -> None:
        """See the contract."""
        self._session.observer.note(message)

    def remote(self, lease_sec: float = 30.0) -> RemoteWork:
        """See the contract."""
        return self._remote(self, lease_sec)

    def take(self) -> Callable[[], None] | None:
        """See the contract."""
        while True:
            with self._changed:
                if self.ended:
                    return None
                if attempt := self.lend():
                    break
                self._changed.wait(LOOK_EVERY_SEC)
        return lambda: self._run(attempt)

    @property
    def ended(self) -> bool:
        """Whether no more attempts will be handed out."""
        with self._changed:
            if self.error or self._session.stop.expired:
                return True
            self._waiting = deque(each for each in self._waiting if not each.run.stop.reason)
            return not (self._waiting or self._running)

    def lend(self, suits: Callable[[QueuedAttempt], bool] = lambda attempt: True) -> QueuedAttempt | None:
        """Hand out the first waiting attempt that suits a place; ``None`` if there is none now. Settle it later."""
        with self._changed:
            if self.ended or len(self._running) >= self.places:
                return None
            attempt = next((each for each in self._waiting if suits(each)), None)
            if attempt is not None:
                self._waiting.remove(attempt)
                self._running.add(attempt)
            return attempt

    def settle(self, attempt: QueuedAttempt, error: BaseException | None = None) -> None:
        """Report that an attempt is recorded, or cannot be recorded because of ``error``."""
        with self._changed:
            self._running.discard(attempt)
            attempt.run.recorded += error is None
            self.error = self.error or error
            self._changed.notify_all()

    def lose(self, attempt: QueuedAttempt, why: str, *, counts: bool = True) -> None:
        """Archive the files of an attempt that was interrupted because its place was lost, and queue it again.

        After ``MOST_LOSSES`` that count, or ``MOST_RETURNS``, its run is stopped instead. Raises RunStoppedError on a
        disk error.
        """
        plan, losses, returns = attempt.plan, attempt.losses + counts, attempt.returns + (not counts)
        name, repeats = f"{plan.task.spec.id}, repeat {plan.repeat}", losses < MOST_LOSSES and returns < MOST_RETURNS
        if not repeats:
            attempt.run.stop.request(f"{name}: {why}; the attempt was lost {losses + returns} times")
        else:
            attempt.run.store.archive_attempt(plan.task.spec.id, plan.repeat, plan.attempt_id)
        with self._changed:
            self._running.discard(attempt)
            if repeats:
                again = attrs.evolve(plan, attempt_id=str(ULID()), supersedes=plan.attempt_id)
                self._waiting.appendleft(QueuedAttempt(plan=again, run=attempt.run, losses=losses, returns=returns))
            self._changed.notify_all()

    def task(self, task_id: str) -> Task:
        """A task of the attempts."""
        return self._tasks[task_id]

    def waiting(self) -> Sequence[QueuedAttempt]:
        """The attempts that wait for a place."""
        with self._changed:
            return tuple(self._waiting)

    def wait(self, seconds: float) -> None:
        """Wait until something changes, at most for some seconds."""
        with self._changed:
            self._changed.wait(seconds)

    def _run(self, attempt: QueuedAttempt) -> None:
        error: BaseException | None = None
        try:
            record_attempt(attempt.plan, self._session, attempt.run.store)
        except BaseException as raised:  # noqa: BLE001 - raised again in the main thread, as the reason why the run stops
            error = raised
        self.settle(attempt, error)
