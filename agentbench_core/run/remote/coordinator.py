"""The side that writes the run: answers the calls of workers."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from agentbench_core.errors import AgentBenchError, AttemptStop, InputError, RunStoppedError
from agentbench_core.run.attempt.session import Session
from agentbench_core.run.attempt.work import AttemptQueue
from agentbench_core.run.remote.documents import (
    ALIVE_SEC,
    PART_BYTES,
    PROTOCOL,
    Document,
    Finish,
    Hello,
    Message,
    ModelCall,
    Order,
    RunDocument,
    Take,
    TaskDocument,
    Welcome,
    check_shape,
    encoded,
    read,
    written,
)
from agentbench_core.run.remote.lease import KnownWorker, Lease
from agentbench_core.run.remote.lending import Compare, Lending
from agentbench_core.run.remote.orders import document_digest, task_document, version_differences
from agentbench_core.run.signals import in_thread
from agentbench_core.run.waiting import OncePerKey
from agentbench_core.values.failures import Outcome
from agentbench_core.workspace.pristine import packed

T = TypeVar("T")

_POLL_SEC = 5.0
"""Seconds for which a call of ``take`` waits for an attempt."""

_MOST_PLACES = 1000


class Coordinator:
    """Implements ``RemoteWork``. Thread-safe.

    Args:
        queue: the attempts.
        session: models and sources of tasks, which stay here.
        runs: the facts that workers need about each run, by run id.
        compare: compares the environments of two workers.
        lease_sec: an attempt is lost if its worker sends nothing about it for this many seconds.
    """

    def __init__(
        self,
        queue: AttemptQueue,
        session: Session,
        runs: Mapping[str, RunDocument],
        compare: Compare,
        lease_sec: float,
    ) -> None:
        self._queue = queue
        self._session = session
        self._runs = {run_id: (document_digest(run), run) for run_id, run in runs.items()}
        self._lease_sec = lease_sec
        self._lending = Lending(queue, session, compare, lease_sec)
        self._tasks: OncePerKey[tuple[str, TaskDocument]] = OncePerKey()
        """Digests and documents of tasks, by task id."""
        self._task_ids: dict[str, str] = {}
        """Ids of the tasks that were lent, by the digest of their document."""
        self._methods: Mapping[str, Callable[[str, Document], Iterator[Any]]] = {
            "hello": self._hello,
            "take": self._take,
            "run": self._run,
            "task": self._task,
            "source": self._source,
            "beat": self._beat,
            "bye": self._bye,
            "send": self._send,
            "model": self._model,
            "finish": self._finish,
        }

    @property
    def workers(self) -> Sequence[str]:
        """See the contract."""
        return self._lending.workers

    @property
    def refusals(self) -> Sequence[str]:
        """See the contract."""
        return tuple(self._lending.refusals)

    def lost(self, worker: str, why: str) -> None:
        """See the contract."""
        self._lending.lost(worker, why)

    def call(self, peer: str, method: str, document: Document) -> Iterator[Document]:
        """See the contract, and ``documents``."""
        answer = self._methods.get(method)
        if answer is None:
            yield {"refused": f"no method {method[:40]!r}"}
            return
        try:
            check_shape(document)
            for part in answer(peer, document):
                yield part if isinstance(part, dict) else written(part)
        except InputError as error:
            yield {"refused": error.message}
        except (AttemptStop, RunStoppedError):  # the attempt, or the whole run, has ended
            yield {"lost": True}
        except Exception as error:  # noqa: BLE001 - an error here must not end the thread that serves a worker
            self._queue.note(f"a worker's call {method!r} failed: {type(error).__name__}: {error}")
            yield {"refused": "this call could not be answered"}

    def _hello(self, peer: str, document: Document) -> Iterator[Any]:
        if document.get("protocol") != PROTOCOL:
            why = f"its protocol is {str(document.get('protocol'))[:20]}, not {PROTOCOL}"
            yield self._refused(str(document.get("name"))[:1000], why)
            return
        hello = read(document, Hello)
        if not 1 <= hello.places <= _MOST_PLACES:
            raise InputError(f"places must be between 1 and {_MOST_PLACES}")
        if not hello.name.strip():
            raise InputError("a worker must have a name")
        different = dict.fromkeys(
            line
            for _, run in self._runs.values()
            for line in version_differences(run.harness, run.plugins, hello.harness, hello.plugins)
        )
        if different:
            yield self._refused(hello.name, "; ".join(different))
            return
        token, name = self._lending.add(hello.name, peer, hello.places, hello.nonce)
        yield Welcome(worker=token, name=name, beat_sec=self._lease_sec / 10)

    def _refused(self, name: str, why: str) -> Document:
        self._lending.refuse(name, why)
        return {"refused": why}

    def _known(self, peer: str, document: Document) -> KnownWorker:
        return self._lending.worker(str(document.get("worker")), peer)

    def _take(self, peer: str, document: Document) -> Iterator[Any]:
        take = read(document, Take)
        worker, until = self._lending.worker(take.worker, peer), time.monotonic() + _POLL_SEC
        while not self._queue.ended:
            if (lease := self._lending.lend(worker, take.number)) is not None:
                yield self._order(lease)
                return
            if time.monotonic() >= until:
                yield {"wait": True}
                return
            self._lending.stop_if_unsuited()
            self._queue.wait(0.5)
        yield {"ended": True}

    def _order(self, lease: Lease) -> Order:
        plan = lease.attempt.plan
        digest, _ = self._task_document(plan.task.spec.id)
        self._task_ids[digest] = plan.task.spec.id
        return Order(
            lease=lease.number,
            token=lease.token,
            run=self._runs[plan.run_id][0],
            task=digest,
            attempt_id=plan.attempt_id,
            repeat=plan.repeat,
            supersedes=plan.supersedes,
            flaky=plan.flaky,
        )

    def _task_document(self, task_id: str) -> tuple[str, TaskDocument]:
        def make() -> tuple[str, TaskDocument]:
            document = task_document(self._queue.task(task_id))
            return document_digest(document), document

        return self._tasks.get(task_id, make, self._session.stop)

    def _run(self, peer: str, document: Document) -> Iterator[Any]:
        self._known(peer, document)
        yield _found(dict(self._runs.values()), document)

    def _task(self, peer: str, document: Document) -> Iterator[Any]:
        self._known(peer, document)
        yield self._task_document(_found(self._task_ids, document))[1]

    def _source(self, peer: str, document: Document) -> Iterator[Any]:
        self._known(peer, document)
        task_id = _found(self._task_ids, document)
        task = self._queue.task(task_id)
        _, source = in_thread(lambda: self._session.shared.source(task), f"source of {task_id}")
        while not concurrent.futures.wait([source], timeout=ALIVE_SEC).done:
            yield {"wait": True}
        try:
            commit, pack = packed(source.result())
        except AttemptStop:
            raise
        except AgentBenchError as error:  # for example, its repository is not available
            yield {"failed": error.message, "remedy": error.remedy}
            return
        yield {"commit": commit}
        with pack.open("rb") as file:
            while data := file.read(PART_BYTES):
                yield {"data": encoded(data)}

    def _beat(self, peer: str, document: Document) -> Iterator[Any]:
        worker = self._known(peer, document)
        leases = document.get("leases")
        numbers = [number for number in leases if isinstance(number, int)] if isinstance(leases, list) else []
        yield {"lost": self._lending.heard(worker, numbers), "stop": self._stopped()}

    def _bye(self, peer: str, document: Document) -> Iterator[Any]:
        self._lending.lost(self._known(peer, document).name, "it has ended")
        yield {}

    def _stopped(self) -> str:
        """Why the run was stopped; empty if it was not."""
        try:
            self._session.stop.check()
        except AttemptStop as stop:
            return stop.message
        return ""

    def _send(self, peer: str, document: Document) -> Iterator[Any]:
        message = read(document, Message)
        lease = self._lending.lease(message.lease, message.token, peer)
        if lease is None:
            yield {"lost": True}
            return
        with self._lending.violations(lease):
            refused = lease.receive(message, lambda digest, facts: self._lending.accept(lease, digest, facts))
        yield {"refused": refused} if refused else {}

    def _model(self, peer: str, document: Document) -> Iterator[Any]:
        call = read(document, ModelCall)
        lease = self._lending.lease(call.lease, call.token, peer)
        if lease is None or lease.models is None or call.after > lease.received:
            yield {"lost": True}
            return
        with self._lending.violations(lease):
            for part in lease.models.answer(call):
                lease.seen = time.monotonic()
                yield part

    def _finish(self, peer: str, document: Document) -> Iterator[Any]:
        finish = read(document, Finish)
        lease = self._lending.lease(finish.lease, finish.token, peer)
        if lease is None or finish.after > lease.received:
            yield {"lost": True}
            return
        conclusion = finish.conclusion
        if conclusion is None:
            self._lending.returned(lease, finish.problem[:2000])
            yield {}
            return
        with self._lending.violations(lease):
            lease.concluded(conclusion)
        if conclusion.outcome is Outcome.INTERRUPTED and not (self._stopped() or lease.attempt.run.stop.reason):
            self._lending.lose(lease, f"worker {lease.worker} interrupted the attempt: {conclusion.explanation[:2000]}")
            yield {}
            return
        yield {} if self._lending.record(lease, lambda: lease.final(conclusion)) else {"lost": True}


def _found(by_digest: Mapping[str, T], document: Document) -> T:
    """The document with the requested digest. Raises InputError if there is none."""
    digest = str(document.get("digest"))
    if digest not in by_digest:
        raise InputError(f"there is no document {digest[:80]}")
    return by_digest[digest]
