"""Real attempts for executors that run them in other processes: a small task, a run directory and the real queue."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
import yaml

from agentbench_core import Executor, Interrupted, RunView, open_run
from agentbench_core.cli.app import App
from agentbench_core.cli.groups import make_group, make_variants
from agentbench_core.inputs.config import layer, resolve
from agentbench_core.inputs.suite import Task, read_task
from agentbench_core.run.attempt.session import Session, open_session
from agentbench_core.run.attempt.work import AttemptQueue
from agentbench_core.run.group.group import open_run_writer, planned_manifest
from agentbench_core.run.group.manifest import running_harness
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.remote.coordinator import Coordinator
from agentbench_core.run.remote.orders import run_document
from agentbench_core.values.events import TaskStarted
from agentbench_core.workspace.repos import directory_commit
from agentbench_testing.checks.executor.stage import Before, ExecutorHooks, Stage, children
from agentbench_testing.doubles.sample_program import write_files

_LOOK_SEC = 0.05
_PATCH = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
_WORKS = "grep -q fixed app.txt"


class RemoteHooks(ExecutorHooks):
    """The hooks for authors of executors with the capability ``remote``. ``make_executor`` is required.

    The executor starts at least two workers on this machine, in the environment of the tests.
    """

    patience: ClassVar[float] = 60.0
    """Maximum seconds for workers to start, to run small attempts, and for a lost worker to be noticed."""

    @classmethod
    def kill_worker(cls, executor: Executor, started: Sequence[int]) -> None:
        """Kill one worker, like a crash. By default, kills the newest of the ``started`` child processes."""
        os.kill(max(started), signal.SIGKILL)

    @pytest.fixture
    def remote_stage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteStage]:
        """The stage that runs executors on real attempts."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        with RemoteStage.opened(self.make_executor, self.patience, tmp_path) as stage:
            yield stage


@attrs.frozen(kw_only=True)
class RemoteWorkload:
    """Attempts of a run: each one waits in its last command until the gate is opened."""

    work: AttemptQueue
    directory: Path
    """The run directory."""
    coordinators: list[Coordinator]
    session: Session
    marks: Path
    before: Before
    """Threads and processes that existed before the executor."""

    def open_gate(self) -> None:
        """Let attempts end."""
        (self.marks / "open").touch()

    def wait_for_attempts(self, number: int, patience: float) -> None:
        """Wait until this number of attempts is waiting at the gate."""
        file, give_up_at = self.marks / "waiting", time.monotonic() + patience
        while not file.exists() or file.read_text().count("\n") < number:
            assert time.monotonic() < give_up_at, f"{number} attempts did not start within {patience:g} s"
            time.sleep(_LOOK_SEC)

    def wait_until_none_runs(self, patience: float) -> None:
        """Wait until all running attempts are recorded."""
        give_up_at = time.monotonic() + patience
        while self.work.running:
            assert time.monotonic() < give_up_at, f"attempts were still running {patience:g} s later"
            time.sleep(_LOOK_SEC)

    def interrupt(self) -> None:
        """Stop the run, as a user does."""
        self.session.stop.end(Interrupted("interrupted by the test"))

    def new_children(self) -> Sequence[int]:
        """Ids of the child processes that were started since ``before``."""
        return sorted(children().keys() - self.before.children)

    @property
    def run(self) -> RunView:
        """The run directory as readers see it."""
        return open_run(self.directory)

    @property
    def workers(self) -> set[str]:
        """Names of the workers that started attempts; the name is empty for this process."""
        return {entry.event.worker for entry in self.run.events() if isinstance(entry.event, TaskStarted)}

    def end(self) -> None:
        """Take back all attempts that workers still have, so that nothing is running."""
        self.interrupt()
        self.open_gate()
        for coordinator in self.coordinators:
            for worker in coordinator.workers:
                coordinator.lost(worker, "the check has ended")


class RemoteStage(Stage):
    """Creates executors, and runs real attempts with them."""

    def __init__(
        self, make_executor: Callable[[], Executor], patience: float, directory: Path, stack: contextlib.ExitStack
    ) -> None:
        super().__init__(make_executor, patience)
        self._directory = directory
        self._stack = stack

    @classmethod
    @contextlib.contextmanager
    def opened(cls, make_executor: Callable[[], Executor], patience: float, directory: Path) -> Iterator[RemoteStage]:
        """A stage whose files are in a directory. At the end, it ends all attempts."""
        with contextlib.ExitStack() as stack:
            stage = cls(make_executor, patience, directory, stack)
            stack.callback(stage.end)
            yield stage

    def attempts(self, number: int, *, places: int = 2) -> RemoteWorkload:
        """Open a new run with this number of attempts at one task."""
        marks = self._directory / "marks"
        marks.mkdir()
        return self._stack.enter_context(_workload(self._directory, _task(self._directory, marks), number, places))


def _task(directory: Path, marks: Path) -> Task:
    """A task whose passing command waits at the gate."""
    at = directory / "tasks/executors/gate"
    write_files(at / "repo", {"app.txt": "broken\n"})
    here = shlex.quote(str(marks))
    gate = f"echo >> {here}/waiting; while [ ! -e {here}/open ] && [ -d {here} ]; do sleep {_LOOK_SEC}; done"
    spec = {
        "id": "gate",
        "suite": "executors",
        "repo": {"url": "repo", "commit": directory_commit(at / "repo")},
        "environment": {"timeout_sec": 120, "network_policy": "none"},
        "setup": {"capture": []},
        "validation": {"failing_command": _WORKS, "passing_command": f"{gate}; {_WORKS}"},
        "oracle": {"patch": "solution.patch"},
    }
    write_files(at, {"solution.patch": _PATCH, "task.yaml": yaml.safe_dump(spec)})
    return read_task(at)


@contextlib.contextmanager
def _workload(directory: Path, task: Task, attempts: int, places: int) -> Iterator[RemoteWorkload]:
    """The same steps as for ``agentbench run``, with the reference solution in the sandbox ``local``."""
    app, run_settings = App.from_environment(()), {"repeats": max(1, attempts), "out": str(directory / "runs")}
    settings = {"agent": "scripted", "sandbox": "local", "run": {**run_settings, "workers": places}}
    resolved = resolve([layer("checks", settings)], app.registry.name_of)
    (variant,) = make_variants(app, {"scripted": resolved}, [task], allow_unisolated=False)
    group = make_group(app, resolved.settings.run, "executors", [task], [variant], "none")
    observer, coordinators = RunObserver(), list[Coordinator]()
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], [task], observer, workers=places, elsewhere=True))
        manifest = planned_manifest(group, variant, "checks", None)
        run = stack.enter_context(open_run_writer(group, variant, manifest, observer))
        run.plans = run.plans[:attempts]
        document = run_document(manifest.run_id, variant, None, running_harness(), group.plugins, group.redactor)

        def remote(queue: AttemptQueue, lease_sec: float) -> Coordinator:
            made = Coordinator(queue, session, {manifest.run_id: document}, lambda one, other: (), lease_sec)
            coordinators.append(made)
            return made

        workload = RemoteWorkload(
            work=AttemptQueue(session, [run], places, remote),
            directory=run.store.directory,
            coordinators=coordinators,
            session=session,
            marks=directory / "marks",
            before=Before(),
        )
        try:
            yield workload
        finally:
            workload.end()
