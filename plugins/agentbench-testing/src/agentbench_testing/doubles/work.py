"""The attempts of a command, for tests of executors: small functions, and a record of how they were run."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from agentbench_core import Attempt, Deadline, Interrupted, RemoteWork
from agentbench_testing.doubles.observing import LONG

_LOOK_SEC = 0.05


class WorkDouble:
    """Implements ``Work``: hands out functions as attempts, and records how an executor uses it. Thread-safe::

        work = WorkDouble([first, second], places=2)
        MyExecutor(MyOptions()).run(work)
        assert sorted(work.ended) == [0, 1]

    Args:
        attempts: the function of each attempt.
        places: maximum number of concurrent attempts.
    """

    def __init__(self, attempts: Sequence[Callable[[], object]], *, places: int = 2) -> None:
        self.places = places  #: maximum number of concurrent attempts
        self.started: list[int] = []
        """Numbers of the attempts that were called, from 0, in that order."""
        self.ended: list[int] = []
        """Numbers of the attempts that have returned, in that order."""
        self.repeated: list[int] = []
        """Numbers of attempts that were called again, which has no effect."""
        self.most_places = 0
        """Maximum number of places at the same time: callers that wait in ``take``, and attempts that run."""
        self.takers_after_end: list[str] = []
        """Names of the threads that called ``take`` after it had returned ``None`` to them."""
        self.notes: list[str] = []
        """Notes for the user."""
        self.interrupted = threading.Event()
        """Set by :meth:`interrupt`; attempts can wait for it."""
        self._attempts = attempts
        self._waiting = deque(range(len(attempts)))
        self._running: set[int] = set()
        self._callers: Counter[threading.Thread] = Counter()
        """Threads that are in ``take``."""
        self._done: set[threading.Thread] = set()
        """Threads to which ``take`` has returned ``None``."""
        self._stop = Deadline(LONG * 60)
        self._changed = threading.Condition()

    @property
    def remaining(self) -> int:
        """Number of attempts that have not returned."""
        with self._changed:
            return len(self._waiting) + len(self._running)

    @property
    def finished(self) -> bool:
        """Whether no attempt is running, and none will be handed out any more."""
        with self._changed:
            return not self._running and (self._stop.expired or not self._waiting)

    @property
    def stop(self) -> Deadline:
        """Ends at :meth:`interrupt`."""
        return self._stop.shown()

    def interrupt(self) -> None:
        """Stop the run, as a user does: no more attempts are handed out."""
        self._stop.end(Interrupted("interrupted by the test"))
        self.interrupted.set()
        with self._changed:
            self._changed.notify_all()

    def take(self) -> Attempt | None:
        """The next attempt; see the contract."""
        caller = threading.current_thread()
        with self._changed:
            if caller in self._done:
                self.takers_after_end.append(caller.name)
            self._callers[caller] += 1
            self.most_places = max(self.most_places, self._callers.total() + len(self._running))
            try:
                while not self._stop.expired and (self._waiting or self._running):
                    if self._waiting and len(self._running) < self.places:
                        number = self._waiting.popleft()
                        self._running.add(number)
                        return lambda: self._run(number)
                    self._changed.wait(_LOOK_SEC)
            finally:
                self._callers[caller] -= 1
            self._done.add(caller)
            return None

    def note(self, message: str) -> None:
        """Record a note."""
        self.notes.append(message)

    def remote(self, lease_sec: float = 30.0) -> RemoteWork:
        """Functions cannot be sent to workers. Raises NotImplementedError."""
        raise NotImplementedError("functions cannot be sent to workers; see RemoteExecutorConformance")

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition about this work is true, and return whether it is."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def _run(self, number: int) -> None:
        with self._changed:
            again = number in self.started
            (self.repeated if again else self.started).append(number)
            self._changed.notify_all()
        if again:
            return
        try:
            self._attempts[number]()
        finally:
            with self._changed:
                self.ended.append(number)
                self._running.discard(number)
                self._changed.notify_all()
