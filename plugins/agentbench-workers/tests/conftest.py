"""The kit's fixtures, in a separate directory, and commands and runs that tests observe while they are running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import attrs
import pytest
import yaml

from agentbench_core import AttemptRecord, RunView, dump, open_run
from agentbench_core.cli.main import main
from agentbench_core.values.events import TaskStarted
from agentbench_testing.fixtures import (
    MakeTask,
    make_suite as make_suite,
    make_task as make_task,
    run_agentbench as run_agentbench,
)

T = TypeVar("T")

PATIENCE_SEC = 90.0
"""Seconds after which something that a test waits for counts as missing; far more than a busy machine needs."""

_VARYING = ("run_id", "attempt_id", "supersedes", "timestamps", "duration_sec")
"""Fields of a record that differ between two equal runs."""


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@attrs.frozen
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def agentbench(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the command in this process."""

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capfd.readouterr()
        return Ended(int(stop.value.code or 0), out, err)

    return run


def eventually(find: Callable[[], T], what: object = "") -> T:
    """The first true result of ``find``; fails after a long time, and then shows ``what``."""
    until = time.monotonic() + PATIENCE_SEC
    while not (found := find()):
        assert time.monotonic() < until, f"it did not happen in time {what() if callable(what) else what}"
        time.sleep(0.02)
    return found


@attrs.frozen(eq=False)
class Command:
    """A command in its own process and process group."""

    process: subprocess.Popen[bytes]
    directory: Path

    @property
    def out(self) -> str:
        """Its output so far."""
        return (self.directory / "out").read_text()

    @property
    def err(self) -> str:
        """Its errors and its progress so far."""
        return (self.directory / "err").read_text()

    @property
    def workers(self) -> Sequence[int]:
        """Ids of the running worker processes that it has started, oldest first."""
        children = [pid for pid in processes() if parent(pid) == self.process.pid]
        return sorted((pid for pid in children if "--stdin" in command_line(pid)), key=_started)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process only."""
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SEC) -> Ended:
        """Wait until it has ended."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.err}") from None
        return Ended(code, self.out, self.err)


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the command in a process, and kill its remaining processes at the end."""
    commands: list[Command] = []

    def run(*arguments: str, **variables: str) -> Command:
        directory = tmp_path / f"command-{len(commands)}"
        directory.mkdir()
        with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
            process = subprocess.Popen(
                [str(Path(sys.executable).parent / "agentbench"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "TMPDIR": _temporary(tmp_path), **variables},
                start_new_session=True,
            )
        commands.append(Command(process, directory))
        return commands[-1]

    yield run
    for command in commands:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()
    for pid in survivors(tmp_path):
        os.kill(pid, signal.SIGKILL)


def _temporary(tmp_path: Path) -> str:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    return str(tmp_path / "tmp")


# --- processes -------------------------------------------------------------------------------------------------------


def processes() -> Sequence[int]:
    """The ids of all processes."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def command_line(pid: int) -> Sequence[str]:
    """The program and arguments of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return ()


def parent(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    return int(_status(pid, 1))


def _started(pid: int) -> int:
    return int(_status(pid, 19))


def _status(pid: int, field: int) -> str:
    """A field of a process's status, counted from its state."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "0"
    return fields[field]


def survivors(place: Path) -> Sequence[int]:
    """The processes, except this one, whose working directory is in a directory."""
    found = []
    for pid in processes():
        try:
            directory = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            continue  # it has just ended, or belongs to another user
        if pid != os.getpid() and directory.is_relative_to(place):
            found.append(pid)
    return found


# --- runs ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Gates:
    """Tasks whose commands wait until the test lets them continue."""

    directory: Path
    make_task: MakeTask

    def task(self, name: str) -> None:
        """Write a task. Its passing command reports that it has started, and waits for the gate."""
        started, opened = self.directory / f"{name}.started", self.directory / f"{name}.open"
        command = f"echo $$ >> {started}; until test -e {opened}; do sleep 0.05; done; echo fixed > app.txt"
        directory = self.make_task(
            name,
            oracle={"script": "solution.yaml", "patch": ""},
            environment={"timeout_sec": 300, "network_policy": "none"},
        )
        call = {"tool": "run", "arguments": {"command": command}}
        (directory / "solution.yaml").write_text(yaml.safe_dump([call]))

    def open(self, *names: str) -> None:
        """Let tasks continue, now and later."""
        for name in names:
            (self.directory / f"{name}.open").touch()

    def started(self, name: str) -> int:
        """Number of times its command was started."""
        path = self.directory / f"{name}.started"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def gates(tmp_path: Path, make_task: MakeTask) -> Gates:
    """Make tasks that wait."""
    (tmp_path / "gates").mkdir()
    return Gates(tmp_path / "gates", make_task)


def only_run(out: str | Path = "artifacts/runs") -> RunView:
    """The run in an output directory."""
    (directory,) = Path(out).iterdir()
    return open_run(directory)


def seen(run: RunView) -> Sequence[Mapping[str, Any]]:
    """Records and files as readers see them, without ids and times, in a fixed order."""
    found = [
        {**{name: value for name, value in dump(record).items() if name not in _VARYING}, "files": _files(run, record)}
        for record in run.records()
    ]
    return sorted(found, key=lambda each: (each["variant"], each["task_id"], each["repeat"]))


def _files(run: RunView, record: AttemptRecord) -> Sequence[str]:
    root = run.directory / record.artifact_paths["task_dir"]
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def event_types(run: RunView) -> Sequence[str]:
    """The types of all events of attempts, sorted."""
    return sorted(type(entry.event).__name__ for entry in run.events() if entry.attempt_id)


def starts(run: RunView, task_id: str) -> Sequence[str]:
    """The workers that have started a task, in order."""
    every = [entry.event for entry in run.events()]
    return [event.worker for event in every if isinstance(event, TaskStarted) and event.task_id == task_id]


@pytest.fixture
def look(tmp_path: Path) -> SimpleNamespace:
    """The functions above, since tests cannot import this module."""
    functions = (eventually, command_line, only_run, seen, event_types, starts)
    return SimpleNamespace(
        **{each.__name__: each for each in functions},
        survivors=lambda: [(pid, command_line(pid)) for pid in survivors(tmp_path)],
    )
