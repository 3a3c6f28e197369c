"""A worker: takes attempts from the process that writes the run, runs them here, and sends their events and files."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import attrs

from agentbench_core.errors import AgentBenchError, Interrupted, SetupError, UnavailableError
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Provenance, Registry
from agentbench_core.plugin.sandbox import Environment
from agentbench_core.run.attempt.attempt import run_attempt
from agentbench_core.run.attempt.record import Conclusion, write_evidence
from agentbench_core.run.attempt.session import Session, open_preparations, open_sandbox
from agentbench_core.run.metering.llm import OpenModels
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import Recording
from agentbench_core.run.remote.calls import Calls, RefusedError
from agentbench_core.run.remote.documents import (
    PROTOCOL,
    Document,
    Finish,
    Hello,
    Order,
    RunDocument,
    Take,
    TaskDocument,
    Welcome,
    decoded,
    read,
)
from agentbench_core.run.remote.models import RemoteModels
from agentbench_core.run.remote.orders import entry, received_plan, received_task, received_variant
from agentbench_core.run.remote.recording import Outbox, RemoteFiles, RemoteLog
from agentbench_core.run.signals import FOR_EVER
from agentbench_core.run.variant import Variant
from agentbench_core.run.waiting import DiskGuard, OncePerKey
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import HarnessInfo
from agentbench_core.workspace.pristine import write_packed
from agentbench_core.workspace.scratch import Scratch


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """The resources that a worker offers."""

    name: str  #: shown in events and messages, such as the host's name
    places: int  #: number of concurrent attempts
    registry: Registry  #: the installed components
    plugins: Sequence[Provenance]  #: the installed plugins
    harness: HarnessInfo  #: the running harness
    sandboxes: Collection[str] = ()  #: sandboxes that may be used; all if empty
    allow_unisolated: bool = False  #: accept agents that use a model in a sandbox that is not isolated
    min_free_mb: int = 200  #: attempts wait while fewer MiB of disk space than this are free


class Worker:
    """Runs attempts until none is left. One instance per process.

    Args:
        settings: the resources that it offers.
        call: makes one call (method, document) and returns the documents of the answer; raises OSError if the
            connection breaks, after which the call is repeated.
        note: shows a message to the operator of this machine.
        stop: ends the worker early; its attempts are repeated by others.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        call: Callable[[str, Document], Iterator[Document]],
        note: Callable[[str], None],
        stop: Deadline,
    ) -> None:
        self._settings = settings
        self._calls = Calls(call)
        self._note = note
        self._stop = stop.within(FOR_EVER)
        self._running: dict[int, Deadline] = {}
        """The deadlines of running attempts, by lease; they end early if the attempt is lost."""
        self._sent: list[int] = []
        """Leases of attempts whose conclusions have arrived."""
        self._runs: OncePerKey[tuple[RunDocument, Variant]] = OncePerKey()
        self._tasks: OncePerKey[Task] = OncePerKey()
        self._digests: dict[Path, str] = {}
        """Digests of the documents of tasks, by the directory of the task."""
        self._sessions: OncePerKey[Session] = OncePerKey()
        self._questions = itertools.count(1)
        self._error: AgentBenchError | None = None
        self._ended = threading.Event()

    def run(self) -> int:
        """Run attempts until none is left, and return their number, without those that were returned.

        Raises:
            UnavailableError: this worker was refused, cannot run the attempts, or has lost its connection.
        """
        offered = self._settings
        hello = Hello(
            protocol=PROTOCOL,
            name=offered.name,
            places=offered.places,
            harness=offered.harness,
            plugins=tuple(map(entry, offered.plugins)),
            python=platform.python_version(),
            platform=platform.platform(),
            nonce=secrets.token_hex(32),
        )
        welcome = read(self._calls.one("hello", hello), Welcome)
        self._id = welcome.worker
        with contextlib.ExitStack() as self._stack:
            for leftover in Scratch.sweep("worker"):
                self._note(f"removed leftovers from a dead worker: {leftover}")
            self._scratch = Scratch("worker")
            self._stack.callback(self._scratch.close)
            beat = threading.Thread(target=self._beat, args=[welcome.beat_sec], name="beat", daemon=True)
            beat.start()
            places = [
                threading.Thread(target=self._run_place, name=f"place {number}", daemon=True)
                for number in range(offered.places)
            ]
            for place in places:
                place.start()
            for place in places:
                place.join()
            self._ended.set()
            self._stop.end(Interrupted("the worker has ended"))
            with contextlib.suppress(AgentBenchError):
                self._calls.one("bye", {"worker": self._id})
        if self._error is not None:
            raise self._error
        return len(self._sent)

    def _beat(self, seconds: float) -> None:
        """Regularly report the running attempts, and end those that are lost or stopped."""
        while not self._ended.wait(seconds):
            try:
                answer = self._calls.one("beat", {"worker": self._id, "leases": sorted(self._running)})
            except AgentBenchError as error:
                self._give_up(error)
                return
            if self._stop.expired:
                return
            for number, deadline in list(self._running.items()):
                if number in answer.get("lost", ()):
                    deadline.end(Interrupted("another worker will repeat the attempt"))
            if answer.get("stop"):  # also ends preparations, which attempts share
                self._stop.end(Interrupted(str(answer["stop"])))

    def _give_up(self, error: AgentBenchError) -> None:
        """End this worker; its running attempts are lost."""
        self._error = self._error or error
        self._stop.end(Interrupted(error.message))
        for deadline in list(self._running.values()):
            deadline.end(Interrupted(error.message))

    def _run_place(self) -> None:
        """Run one attempt after another until none is left."""
        while (order := self._next_order()) is not None:
            self._run_order(order)

    def _next_order(self) -> Order | None:
        """The next attempt; ``None`` if nothing is left, or this worker ends."""
        while not self._stop.expired:
            try:
                answer = self._calls.one("take", Take(worker=self._id, number=next(self._questions)))
            except AgentBenchError as error:
                self._give_up(error)
                return None
            if answer.get("ended"):
                return None
            if "lease" in answer:
                return read(answer, Order)
        return None

    def _run_order(self, order: Order) -> None:
        """Run one attempt and send its conclusion. If it cannot be run here, return it and end this worker."""
        deadline = self._running[order.lease] = Deadline(FOR_EVER, parent=self._stop)
        outbox = Outbox(order.lease, order.token, self._calls.send)
        finish = Finish(lease=order.lease, token=order.token, after=0, conclusion=None)
        try:
            end = self._concluded(order, outbox, deadline)
            self._calls.finish(attrs.evolve(finish, after=outbox.flush(), conclusion=end))
            self._sent.append(order.lease)
        except (Interrupted, RefusedError) as error:  # the attempt is lost, or only this worker cannot run it
            self._give_back(finish, str(error))
        except AgentBenchError as error:
            self._give_back(finish, str(error))
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - an error of this machine; other workers repeat the attempt
            problem = UnavailableError(f"an attempt failed on this worker: {type(error).__name__}: {error}")
            self._give_back(finish, problem.message)
            self._give_up(problem)
        finally:
            outbox.close()
            del self._running[order.lease]

    def _give_back(self, finish: Finish, problem: str) -> None:
        """Let another worker run an attempt; nothing happens if it is lost."""
        with contextlib.suppress(AgentBenchError):
            self._calls.finish(attrs.evolve(finish, problem=problem))

    def _concluded(self, order: Order, outbox: Outbox, deadline: Deadline) -> Conclusion:
        run, variant = self._runs.get(order.run, lambda: self._received_run(order.run), self._stop)
        task = self._tasks.get(order.task, lambda: self._received_task(order.task), self._stop)
        plan = received_plan(order, run, variant, task)
        shared = self._sessions.get(variant.sandbox.name, lambda: self._open(variant, task), self._stop)
        redactor = _redactor(plan)
        directory = self._scratch.place("attempt")
        files = RemoteFiles(directory, redactor, outbox)
        recording = Recording(log=RemoteLog(outbox, redactor), files=files, directory=directory)
        session = attrs.evolve(
            shared,
            stop=deadline,
            observer=_Phases(outbox),
            models={variant.name: self._models(order, run, outbox, files)} if run.model else {},
            accept=lambda plan, environment: _offer(outbox, environment),
        )
        try:
            result = run_attempt(plan, session, recording)
            write_evidence(plan, result, files, setup=session.shared.setup_output(task))
            return Conclusion.of(result)
        finally:
            self._scratch.discard(directory.parent)

    def _models(self, order: Order, run: RunDocument, outbox: Outbox, files: RemoteFiles) -> OpenModels:
        assert run.model is not None
        assert run.model_facts is not None
        info, facts = run.model, run.model_facts
        return lambda plan, recording, deadline, stop: RemoteModels(
            order.lease,
            order.token,
            info,
            facts,
            deadline,
            stop,
            lambda make: self._calls.answers(make(outbox.flush())),
            files,
        )

    def _received_run(self, digest: str) -> tuple[RunDocument, Variant]:
        run = read(self._calls.one("run", {"worker": self._id, "digest": digest}), RunDocument)
        offered = self._settings
        variant = received_variant(run, offered.registry, allow_unisolated=offered.allow_unisolated)
        if offered.sandboxes and variant.sandbox.name not in offered.sandboxes:
            raise UnavailableError(
                f"this worker does not offer the {variant.sandbox.name!r} sandbox, only "
                f"{', '.join(sorted(offered.sandboxes))}",
                remedy=f"Start it with --sandbox {variant.sandbox.name}, or use a different sandbox for the run.",
            )
        return run, variant

    def _received_task(self, digest: str) -> Task:
        document = read(self._calls.one("task", {"worker": self._id, "digest": digest}), TaskDocument)
        directory = self._scratch.fresh("task")
        self._digests[directory] = digest
        return received_task(document, directory)

    def _open(self, variant: Variant, task: Task) -> Session:
        provider = self._stack.enter_context(open_sandbox(variant, [task], self._note))
        shared = self._stack.enter_context(open_preparations(provider, self._stop, self._note, self._write_source))
        space = DiskGuard([shared.directory, self._scratch.path], self._settings.min_free_mb, self._note, self._stop)
        return Session(shared=shared, offered={}, stop=self._stop, space=space, observer=RunObserver())

    def _write_source(self, task: Task, into: Path, deadline: Deadline) -> None:
        """Fetch the source of a task. Raises SetupError if it could not be checked out."""
        pack, commit = self._scratch.place("source.pack"), ""
        with pack.open("wb") as file:
            for part in self._calls.every("source", {"worker": self._id, "digest": self._digests[task.directory]}):
                deadline.check()
                if "failed" in part:
                    raise SetupError(str(part["failed"]), remedy=str(part.get("remedy", "")))
                if "commit" in part:  # the answer starts, or starts again
                    commit = str(part["commit"])
                    file.truncate(0)
                    file.seek(0)
                file.write(decoded(part.get("data", "")))
        write_packed(commit, pack, into, deadline)
        self._scratch.discard(pack.parent)


class _Phases(RunObserver):
    """Sends the phases of an attempt, for displays."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Send it."""
        self._outbox.add({"phase": phase})


def _offer(outbox: Outbox, environment: Environment) -> None:
    """Send the environment of an attempt for comparison. Raises RunStoppedError if it is refused."""
    outbox.add({"environment": {"digest": environment.digest, "facts": dict(environment.facts)}})
    outbox.flush()


def _redactor(plan: AttemptPlan) -> Redactor:
    """Redacts the secrets of this machine. Those of the machine that writes the run are redacted there."""
    settings = plan.variant.settings_with_origins
    secret = {*plan.artifacts.redact, *(str(leaf.value) for key, leaf in settings.items() if key.endswith("_env"))}
    return Redactor(os.environ, secret, ours={plan.task.spec.suite, plan.variant.name, plan.task.spec.id})
