"""Shared by all attempts on a task: source, environment and baseline, each prepared once."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from agentbench_core.errors import AgentBenchError, DeadlineExceeded, Interrupted, SandboxError, SetupError
from agentbench_core.inputs.suite import Task, hidden_paths
from agentbench_core.plugin.contracts import EventLog
from agentbench_core.plugin.sandbox import Environment, SandboxProvider
from agentbench_core.plugin.scorer import Calibration
from agentbench_core.run.attempt.setup_record import SetupRecorder, save_setup, saved_setup
from agentbench_core.run.metering.resources import PhaseMonitor
from agentbench_core.run.waiting import CpuSlots, OncePerKey
from agentbench_core.values.events import BaselineFinished, BaselineStarted
from agentbench_core.values.execution import Command, ExecResult, Output
from agentbench_core.values.failures import Outcome
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.repos import checkout
from agentbench_core.workspace.scratch import Scratch
from agentbench_core.workspace.snapshot import Snapshot, Snapshots
from agentbench_core.workspace.tree import Tree, fork


@attrs.frozen(kw_only=True)
class Prepared:
    """A task's environment, and the snapshot of its workspace, the base of every diff."""

    environment: Environment  #: the task's environment after its setup
    base: Snapshot  #: snapshot of its workspace


_NOT_RUN = (126, 127)
"""Exit codes of a shell for a program that cannot be executed, or does not exist."""
_MISSING = re.compile(
    r"^\S*python[\d.]*: No module named (?:pytest|py\.test|nose2?|tox|nox)$|^g?make(?:\[\d+\])?: \*\*\* .* Error 127$",
    re.MULTILINE,
)
"""Output of Python or make if the test program is missing, which their exit codes do not reveal."""


@attrs.frozen(kw_only=True)
class Baseline:
    """Results of the failing command before the agent runs."""

    public: ExecResult  #: result without hidden tests, shown to agents
    with_hidden: ExecResult  #: result with hidden tests; the same as ``public`` if there are none
    timeout_ok: bool = False
    """Whether a timeout counts as the expected failure, for a bug that makes the command hang."""
    duration_sec: float = 0.0  #: seconds that both runs took

    @property
    def event(self) -> BaselineFinished:
        """The event that reports the result of the failing command."""
        code = self.with_hidden.exit_code
        return BaselineFinished(exit_code=code, failed_as_expected=self.failed, duration_sec=self.duration_sec)

    @property
    def failed(self) -> bool:
        """Whether the command failed as expected, not because of a missing program or a disallowed timeout."""
        return self.problem is None

    @property
    def problem(self) -> tuple[Outcome, str] | None:
        """The reason why the task cannot be given to an agent; ``None`` if it can."""
        if self.with_hidden.timed_out and self.timeout_ok:
            return None
        if self.with_hidden.timed_out:
            return Outcome.SETUP_FAILED, "the failing command timed out on the unchanged repository"
        if self.with_hidden.exit_code in _NOT_RUN or _MISSING.search(self.with_hidden.stderr.text):
            message = (self.with_hidden.stderr.text or self.with_hidden.stdout.text).strip()
            return Outcome.SETUP_FAILED, f"the failing command could not be started: {message}"
        if self.with_hidden.ok:
            return Outcome.INVALID_TASK, "the failing command exits with 0 on the unchanged repository"
        return None


WriteSource = Callable[[Task, Path, Deadline], None]
"""Writes the pristine tree of a task into a new directory. Raises AgentBenchError if that fails."""


def write_checkout(task: Task, into: Path, deadline: Deadline) -> None:
    """Check out the task's commit."""
    checkout(task.spec.repo, beside=task.directory, into=into, deadline=deadline)


class PreparedTasks:
    """Prepared task environments, shared by all attempts of a command, across variants. Thread-safe.

    A ``monitor`` argument receives waiting times, and the results of commands that the call ran for all attempts.
    """

    def __init__(
        self,
        provider: SandboxProvider | None,
        scratch: Scratch,
        stop: Deadline,
        write_source: WriteSource = write_checkout,
    ) -> None:
        self._write_source = write_source
        self._provider = provider
        self._scratch = scratch
        self.stop = stop
        self._sources: OncePerKey[Path] = OncePerKey()
        self._environments: OncePerKey[Prepared] = OncePerKey()
        self._baselines: OncePerKey[Baseline] = OncePerKey()
        self.calibrations: OncePerKey[Calibration] = OncePerKey()
        self._setups: dict[Path, SetupRecorder] = {}
        self.snapshots = Snapshots(scratch.place("snapshots"), stop)
        self.cpu_slots = CpuSlots(stop)
        self.directory = scratch.path
        """The parent directory of all forks."""

    def source(self, task: Task, monitor: PhaseMonitor | None = None) -> Path:
        """The pristine tree at the task's commit. Raises SetupError if it cannot be checked out."""
        waited = (monitor or PhaseMonitor()).add_wait
        return self._sources.get(task.directory, lambda: self._checkout(task), self.stop, waited)

    def environment(self, task: Task, pristine: Path, log: EventLog, monitor: PhaseMonitor | None = None) -> Prepared:
        """The task's environment after its setup. Raises SetupError or SandboxError if the setup or sandbox fails."""
        monitor, ran = monitor or PhaseMonitor(), False

        def prepare() -> Prepared:
            nonlocal ran
            ran = True
            deadline = self.stop.within(task.spec.environment.setup_timeout_sec)
            recorder = self._setups[task.directory] = SetupRecorder(log, monitor)
            assert self._provider is not None, "environments must be prepared where attempts run"
            try:
                environment = self._provider.prepare(task.spec.environment_spec(), pristine, recorder, deadline)
            except DeadlineExceeded as error:
                raise SetupError(f"the setup exceeded its time limit of {deadline.seconds:g} s") from error
            if recorder.commands:
                save_setup(environment.digest, recorder.commands)
            else:
                recorder.commands += saved_setup(environment.digest)
                recorder.tell(log)
            return Prepared(environment=environment, base=self.snapshots.take(environment.workspace))

        try:
            prepared = self._environments.get(task.directory, prepare, self.stop, monitor.add_wait)
        except SetupError:
            self._replay_setup(task, log, ran)
            raise
        self._replay_setup(task, log, ran)
        return prepared

    def _replay_setup(self, task: Task, log: EventLog, ran: bool) -> None:
        if not ran and task.directory in self._setups:
            self._setups[task.directory].tell(log)

    def forget(self, task: Task) -> None:
        """Release everything that was prepared for a task that is no longer needed."""
        source = self._sources.pop(task.directory)
        if source is not None:
            self.discard(source)
        self._environments.pop(task.directory)
        self._baselines.pop(task.directory)
        self._setups.pop(task.directory, None)

    def setup_output(self, task: Task) -> tuple[Output, Output]:
        """Standard output and standard error of the setup, even if it failed."""
        recorder = self._setups.get(task.directory)
        return (recorder.stdout, recorder.stderr) if recorder else (Output(), Output())

    def baseline(
        self, task: Task, environment: Environment, log: EventLog, monitor: PhaseMonitor | None = None
    ) -> Baseline:
        """The result of the failing command on the unchanged tree."""
        monitor, ran = monitor or PhaseMonitor(), False

        def make() -> Baseline:
            nonlocal ran
            ran = True
            return self.run_baseline(task, environment, log, monitor)

        baseline = self._baselines.get(task.directory, make, self.stop, monitor.add_wait)
        if not ran:
            log.emit(BaselineStarted(command=task.spec.validation.failing_command, cached=True))
            log.emit(attrs.evolve(baseline.event, cached=True))
        return baseline

    def run_baseline(
        self, task: Task, environment: Environment, log: EventLog, monitor: PhaseMonitor | None = None
    ) -> Baseline:
        """Like :meth:`baseline`, but run again in fresh sandboxes."""
        monitor = monitor or PhaseMonitor()
        command = task.spec.validation.failing_command
        log.emit(BaselineStarted(command=command))
        started = time.monotonic()
        public = self._run(task, environment, monitor, hidden=False)
        with_hidden = self._run(task, environment, monitor, hidden=True) if task.hidden else public
        baseline = Baseline(
            public=public,
            with_hidden=with_hidden,
            timeout_ok=task.spec.validation.failing_timeout_ok,
            duration_sec=round(time.monotonic() - started, 6),
        )
        log.emit(baseline.event)
        return baseline

    def fork(
        self,
        task: Task,
        environment: Environment,
        name: str,
        *,
        hidden: bool,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> Path:
        """A private copy of the prepared tree, with or without the hidden tests."""
        target = self._scratch.place(name)
        with self.cpu_slots.slot() as seconds:
            waited(seconds)
            fork(environment.workspace, target)
            if hidden:
                self.add_hidden(task, target)
        return target

    @staticmethod
    def add_hidden(task: Task, workspace: Path) -> None:
        """Write the hidden tests into a workspace, replacing files of the same name. Other files are kept."""
        if not task.hidden:
            return
        paths = hidden_paths(task)
        with Tree(workspace) as tree:
            for path in list(_blocking_entries(tree, paths)):
                tree.remove(path)
            for path, file in zip(paths, task.hidden, strict=True):
                tree.write(path, file.data, executable=file.executable)

    def discard(self, workspace: Path) -> None:
        """Remove a fork. Anything left over is removed at the end of the run, or by the next run."""
        self._scratch.discard(workspace.parent)

    def empty(self, name: str) -> Path:
        """A new empty directory, also removed by :meth:`discard`."""
        directory = self._scratch.place(name)
        directory.mkdir()
        return directory

    def _checkout(self, task: Task) -> Path:
        deadline = self.stop.within(task.spec.environment.setup_timeout_sec)
        into = self._scratch.place("source")
        try:
            self._write_source(task, into, deadline)
        except (Interrupted, SandboxError):
            raise
        except AgentBenchError as error:
            raise SetupError(error.message, remedy=error.remedy) from error
        return into

    def _run(self, task: Task, environment: Environment, monitor: PhaseMonitor, *, hidden: bool) -> ExecResult:
        settings = task.spec.environment
        workspace = self.fork(task, environment, "baseline", hidden=hidden, waited=monitor.add_wait)
        try:
            deadline = self.stop.within(settings.timeout_sec)
            command = Command(task.spec.validation.failing_command, network=settings.network_policy == "always")
            result = environment.run_once(command, workspace, deadline)
            monitor.add(result)
            self.stop.check()
            return result
        finally:
            self.discard(workspace)


def _blocking_entries(tree: Tree, paths: Sequence[str]) -> Iterator[str]:
    """Entries that block hidden tests at ``paths``, and bytecode of files that hidden tests replace."""
    files = set(paths)
    directories = set(itertools.chain.from_iterable(map(_parents, paths)))
    for entry in tree.walk():
        path = entry.path
        parent, _, base = path.rpartition("/")
        source = f"{parent.removesuffix('__pycache__')}{base.partition('.')[0]}.py"
        if path in directories or (path in files and entry.kind != "file"):
            yield path
        elif parent.rpartition("/")[2] == "__pycache__" and source in files:
            yield path  # Python trusts bytecode if the size and modification time (in seconds) of the source match
        elif not files.isdisjoint(_parents(path)):
            yield path


def _parents(path: str) -> Iterator[str]:
    """The parent directories of a path."""
    while path := path.rpartition("/")[0]:
        yield path
