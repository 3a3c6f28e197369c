"""Tracks the attempts of workers: attempts are lent, recorded once, and taken back from lost workers."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from agentbench_core.errors import InputError
from agentbench_core.run.attempt.record import Conclusion
from agentbench_core.run.attempt.session import Session
from agentbench_core.run.attempt.work import AttemptQueue
from agentbench_core.run.remote.lease import KnownWorker, Lease
from agentbench_core.run.remote.model_calls import ModelCalls

_GRACE_SEC = 30.0
"""Seconds that workers have to conclude their attempts after the run was stopped."""

_MOST_REFUSALS = 1000
_LONGEST_NAME = 100

Compare = Callable[[Mapping[str, str], Mapping[str, str]], Sequence[str]]
"""Differences between the digest and facts of two environments."""


class Lending:
    """The workers and their attempts. Thread-safe.

    Args:
        queue: the attempts.
        session: the models, which stay here.
        compare: compares the environments of two workers.
        lease_sec: an attempt is lost if its worker sends nothing about it for this many seconds.
    """

    def __init__(self, queue: AttemptQueue, session: Session, compare: Compare, lease_sec: float) -> None:
        self._queue = queue
        self._session = session
        self._compare = compare
        self._lease_sec = lease_sec
        self._workers: dict[str, KnownWorker] = {}
        """By their secret tokens."""
        self._greeted: dict[tuple[str, str], str] = {}
        """Tokens by the peer and the random text of the first call."""
        self._leases: dict[int, Lease] = {}
        self._numbers = itertools.count(1)
        self._environments: dict[str, tuple[str, Mapping[str, str]]] = {}
        """The worker that first prepared a task, with digest and facts, by task id."""
        self._used: set[str] = set()
        """Tasks with a recorded attempt in that environment."""
        self._lock = threading.RLock()
        self.refusals: list[str] = []
        """Why workers were refused."""
        threading.Thread(target=self._watch, name="leases", daemon=True).start()

    # --- workers -------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> Sequence[str]:
        """Names of accepted workers that are not lost."""
        with self._lock:
            return sorted(worker.name for worker in self._workers.values())

    def add(self, name: str, peer: str, places: int, nonce: str) -> tuple[str, str]:
        """Accept a worker. Returns its token and its name, which gets a number if another worker already has it.

        A repeated call with the same random text has the same answer. Raises InputError if that worker was lost.
        """
        name = name[:_LONGEST_NAME]
        with self._lock:
            if token := self._greeted.get((peer, nonce), ""):
                return token, self.worker(token, peer).name
            token = self._greeted[peer, nonce] = secrets.token_hex(32)
            taken = {each.name for each in self._workers.values()}
            names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
            unique = next(each for each in names if each not in taken)
            self._workers[token] = KnownWorker(name=unique, peer=peer, places=places)
        return token, unique

    def refuse(self, name: str, why: str) -> None:
        """Show why a worker is refused, but only once."""
        message = f"worker {name[:_LONGEST_NAME]} was rejected: {why}"
        with self._lock:
            if message in self.refusals or len(self.refusals) >= _MOST_REFUSALS:
                return
            self.refusals.append(message)
        self._queue.note(message)

    def worker(self, token: str, peer: str) -> KnownWorker:
        """The worker with a token. Raises InputError if there is none."""
        with self._lock:
            worker = self._workers.get(token)
        if worker is None or worker.peer != peer:
            raise InputError("this worker is not known or was lost")
        worker.seen = time.monotonic()
        return worker

    def lost(self, name: str, why: str) -> None:
        """Drop a worker that has ended: its attempts are recorded as interrupted, and repeated by others."""
        with self._lock:
            gone = {token: worker for token, worker in self._workers.items() if worker.name == name}
            numbers = {number for worker in gone.values() for number in worker.leases}
            leases = [self._leases[number] for number in numbers & self._leases.keys()]
            for token in gone:
                del self._workers[token]
            if gone:
                self._forget_environments(name)
        for lease in leases:
            self.lose(lease, f"worker {name} was lost: {why}")

    def _forget_environments(self, name: str) -> None:
        """Let another worker determine the environments of a lost worker, unless these have recorded attempts."""
        open_ = {each.attempt.plan.task.spec.id for each in self._leases.values() if each.worker != name}
        for task_id, (first, _) in list(self._environments.items()):
            if first == name and task_id not in self._used | open_:
                del self._environments[task_id]
                for worker in self._workers.values():
                    worker.unsuited.pop(task_id, None)

    # --- leases --------------------------------------------------------------------------------------------------

    def lend(self, worker: KnownWorker, question: int) -> Lease | None:
        """Lend the next attempt that suits a worker; ``None`` if there is none. Raises InputError if it is full.

        A repeated request gets the same attempt, or nothing if it has ended.
        """
        with worker.taking:
            if question in worker.taken:
                return self._leases.get(worker.taken[question])
            lease = self._lend(worker)
            if lease is not None:
                worker.taken[question] = lease.number
            return lease

    def _lend(self, worker: KnownWorker) -> Lease | None:
        with self._lock:
            if worker.lent >= worker.places:
                raise InputError(f"this worker has no free place (places: {worker.places})")
            attempt = self._queue.lend(lambda each: each.plan.task.spec.id not in worker.unsuited)
            if attempt is None:
                return None
            worker.lent += 1
            number = next(self._numbers)
        plan = attempt.plan
        try:
            lease = Lease(number, secrets.token_hex(32), worker.name, worker.peer, attempt, self._session.observer)
        except BaseException as error:  # noqa: BLE001 - the run cannot be written, which stops it
            self._queue.settle(attempt, error)
            return None
        models = self._session.models.get(plan.variant.name)
        if models is not None and plan.agent.can("needs_llm"):
            lease.models = ModelCalls(plan, lease.writer.recording, models, self._session.stop)
        with self._lock:
            self._leases[number] = lease
            worker.leases.add(number)
        return lease

    def lease(self, number: int, token: str, peer: str) -> Lease | None:
        """An open lease, if the token and the peer are correct; tokens are compared in constant time."""
        with self._lock:
            lease = self._leases.get(number)
        if (
            lease is None
            or lease.peer != peer
            or not secrets.compare_digest(lease.token.encode(), token.encode(errors="replace"))
        ):
            return None
        lease.seen = time.monotonic()
        return lease

    def heard(self, worker: KnownWorker, numbers: Sequence[int]) -> Sequence[int]:
        """Process a worker's report of its attempts; returns those that it no longer has."""
        with self._lock:
            held = [number for number in numbers if number in worker.leases]
            for number in held:
                self._leases[number].seen = time.monotonic()
        return sorted(set(numbers) - set(held))

    @contextlib.contextmanager
    def violations(self, lease: Lease) -> Iterator[None]:
        """Drop a worker that sends something invalid, and take back its attempts. Raises InputError again."""
        try:
            yield
        except InputError as error:
            why = f"it sent an invalid message: {error.message}"
            self.refuse(lease.worker, why)
            self.lost(lease.worker, why)
            raise

    def accept(self, lease: Lease, digest: str, facts: Mapping[str, str]) -> str:
        """Compare an environment with recorded attempts, and with the worker that first prepared the task.

        Returns how it differs.
        """
        plan, here = lease.attempt.plan, {"digest": digest, **facts}
        task_id, recorded = plan.task.spec.id, plan.environment_digest
        with self._lock:
            if recorded not in (None, digest):
                why = f"its environment for {task_id} has changed since this run started: {recorded} -> {digest}"
            else:
                first, before = self._environments.setdefault(task_id, (lease.worker, here))
                different = "; ".join(self._compare(before, here))
                why = different and f"its environment for {task_id} differs from the one on worker {first}: {different}"
            for worker in self._workers.values() if why else ():
                if worker.name == lease.worker:
                    worker.unsuited[task_id] = why
        if why:
            self._queue.note(f"worker {lease.worker}: {why}")
        return why

    def stop_if_unsuited(self) -> None:
        """Stop runs with a waiting attempt whose task has a different environment on all workers."""
        with self._lock:
            workers = list(self._workers.values())
            for attempt in self._queue.waiting() if workers else ():
                task_id = attempt.plan.task.spec.id
                if all(task_id in worker.unsuited for worker in workers):
                    last = workers[-1]
                    attempt.run.stop.request(
                        f"no worker is left for {task_id}; worker {last.name}: {last.unsuited[task_id]}"
                    )

    def record(self, lease: Lease, end: Callable[[], Conclusion]) -> bool:
        """Record an attempt. False if it is already recorded or lost."""
        if not self._closed(lease):
            return False
        with self._lock:
            self._used.add(lease.attempt.plan.task.spec.id)
        error: BaseException | None = None
        try:
            lease.writer.finish(end)
        except BaseException as raised:  # noqa: BLE001 - the run cannot be written, which stops it
            error = raised
        self._queue.settle(lease.attempt, error)
        return error is None

    def returned(self, lease: Lease, problem: str) -> None:
        """Accept an attempt that a worker returns. If it had not begun, the worker cannot run it, but others may."""
        begun = lease.received > 0
        if not begun:
            self.refuse(lease.worker, problem)
        self.lose(lease, f"worker {lease.worker} returned the attempt: {problem}", counts=begun)

    def lose(self, lease: Lease, why: str, *, counts: bool = True) -> None:
        """Record a lost attempt as interrupted, and let another worker repeat it, unless the run has been stopped."""
        if self._session.stop.expired:
            self.record(lease, lambda: lease.interrupted(why))
            return
        task_id = lease.attempt.plan.task.spec.id
        with self._lock:
            unsuited = any(task_id in each.unsuited for each in self._workers.values() if each.name == lease.worker)
        if not self._closed(lease):
            return
        try:
            lease.writer.finish(lambda: lease.interrupted(why), lost=True)
            self._queue.lose(lease.attempt, why, counts=counts and not unsuited)
        except BaseException as error:  # noqa: BLE001 - the run cannot be written, which stops it
            self._queue.settle(lease.attempt, error)

    def _closed(self, lease: Lease) -> bool:
        """Close a lease. False if it was already closed."""
        if not lease.close():
            return False
        with self._lock:
            self._leases.pop(lease.number, None)
            for worker in self._workers.values():
                if lease.number in worker.leases:
                    worker.leases.remove(lease.number)
                    worker.lent -= 1
        return True

    def _watch(self) -> None:
        """Take back attempts of silent workers, until the run has ended."""
        stopped_at: float | None = None
        while not (self._queue.ended and not self._leases):
            time.sleep(min(1.0, self._lease_sec / 10))
            now = time.monotonic()
            if stopped_at is None and self._session.stop.expired:
                stopped_at = now
            self._take_back(now)
            with self._lock:
                leases = list(self._leases.values())
            for lease in leases:
                if stopped_at is not None and now - stopped_at > _GRACE_SEC:
                    self.lose(lease, "the run was stopped, and the worker did not end the attempt")

    def _take_back(self, now: float) -> None:
        """Drop workers, and take back attempts of others, if nothing was received for the duration of a lease."""
        with self._lock:
            leases = list(self._leases.values())
            seen = {worker.name: worker.seen for worker in self._workers.values()}
        for lease in leases:
            if lease.worker in seen:
                seen[lease.worker] = max(seen[lease.worker], lease.seen)
        for name, last in seen.items():
            if now - last > self._lease_sec:
                self.lost(name, f"it sent no message for {self._lease_sec:g} s")
        for lease in leases:
            if now - lease.seen > self._lease_sec:
                self.lose(lease, f"worker {lease.worker} no longer runs the attempt")
            elif lease.is_overdue:
                self.lose(lease, f"worker {lease.worker} did not finish the attempt within {lease.longest_sec:.0f} s")
