"""Runs on local worker processes that are killed, stopped and interrupted while their attempts are running."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core.evidence.redaction import without_secrets

TASKS = ("one", "two")
RUN = ("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "local", "--workers", "2")
TWO = ("--executor", "workers", "--set", "executor.processes=2")
SECRETS = {"OPENROUTER_API_KEY": "sk-or-v1-" + "0123abcd" * 8, "MY_PASSWORD": "correct horse", "A_TOKEN": "battery"}


@attrs.frozen
class Stage:
    """A run on two processes, each of which is running an attempt."""

    start: Any
    command: Any
    gates: Any
    look: Any

    @property
    def run(self) -> Any:
        """The run."""
        return self.look.only_run()

    def worker_of(self, task: str) -> tuple[str, int]:
        """The name and the process of the worker that has started a task last."""
        name = self.look.starts(self.run, task)[-1]
        return name, self.command.workers[int(name.removeprefix("local-")) - 1]

    def lost(self) -> list[str]:
        """The tasks of recorded attempts that were lost."""
        return [record.task_id for record in self.run.every_record() if record.outcome == "interrupted"]

    def resume(self) -> None:
        """Resume the run with open gates, in a process."""
        self.gates.open(*TASKS)
        done = self.start("run", "--resume", str(self.run.directory)).wait()
        assert done.code == 0, done.err

    def check(self, *, lost: int) -> None:
        """Check that each task has one result, that lost attempts are archived, and that nothing is left."""
        run = self.run
        assert sorted((record.task_id, record.result.passed) for record in run.records()) == [(t, True) for t in TASKS]
        every = list(run.every_record())
        assert len(every) == len({record.attempt_id for record in every}) == len(TASKS) + lost
        interrupted = {record.attempt_id for record in every if record.outcome == "interrupted"}
        assert {record.supersedes for record in run.records()} - {None} == interrupted
        archived = {path.name for path in Path(run.directory).rglob("*") if path.is_dir() and path.name in interrupted}
        assert archived == interrupted
        assert run.status() == "completed"
        self.look.eventually(lambda: not self.look.survivors(), self.look.survivors)


@pytest.fixture
def stage(start: Any, gates: Any, look: Any) -> Callable[..., Stage]:
    """Start a run, and wait until both attempts are running."""

    def begin(*arguments: str, **variables: str) -> Stage:
        for name in TASKS:
            gates.task(name)
        command = start(*RUN, *TWO, *arguments, **variables)
        look.eventually(lambda: all(gates.started(name) for name in TASKS), lambda: command.err)
        return Stage(start, command, gates, look)

    return begin


@pytest.mark.long
def test_one_worker_is_killed(stage: Any, look: Any) -> None:
    """The other one repeats its attempt, and both are recorded once."""
    at = stage()
    name, process = at.worker_of("one")
    other, _ = at.worker_of("two")
    os.kill(process, signal.SIGKILL)
    look.eventually(at.lost)
    at.gates.open(*TASKS)
    done = at.command.wait()
    assert done.code == 0, done.err
    assert look.starts(at.run, "one") == [name, other]
    assert look.starts(at.run, "two") == [other]
    assert f"worker {name}: its process was killed by SIGKILL" in done.err
    at.check(lost=1)


@pytest.mark.long
def test_all_workers_are_killed(stage: Any, look: Any) -> None:
    """The run stops because the last worker has ended, and can be resumed."""
    at = stage()
    first, second = at.command.workers
    os.kill(first, signal.SIGKILL)
    look.eventually(at.lost)
    os.kill(second, signal.SIGKILL)
    done = at.command.wait()
    assert done.code == 4, done.err
    (reason,) = [line for line in done.err.splitlines() if "the run ended early" in line]
    assert "no worker is left" in done.err
    assert "worker local-2: its process was killed by SIGKILL" in reason
    assert at.run.status() == "stopped"
    assert look.survivors() == []
    at.resume()
    at.check(lost=2)


@pytest.mark.release
def test_a_worker_is_stopped(stage: Any, look: Any) -> None:
    """Another worker repeats its attempt after the lease. When it continues, it is refused, and ends before the run."""
    at = stage("--set", "executor.lease_sec=4")
    name, process = at.worker_of("one")
    other, _ = at.worker_of("two")
    os.kill(process, signal.SIGSTOP)
    look.eventually(at.lost)
    at.gates.open("two")
    look.eventually(lambda: look.starts(at.run, "one") == [name, other])
    os.kill(process, signal.SIGCONT)
    look.eventually(lambda: process not in at.command.workers)
    at.gates.open("one")
    done = at.command.wait()
    assert done.code == 0, done.err
    assert f"worker {name} was lost: it sent no message for 4 s" in done.err
    assert (
        f"worker {name}: error: the coordinator rejected this worker: this worker is not known or was lost" in done.err
    )
    at.check(lost=1)


@pytest.mark.long
def test_ctrl_c(stage: Any, look: Any) -> None:
    """Running attempts are recorded as interrupted, no process is left, and the run can be resumed."""
    at = stage()
    at.command.signal(signal.SIGINT)
    done = at.command.wait()
    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    assert "resume with: agentbench run --resume" in done.err
    assert sorted(at.lost()) == [*TASKS]
    assert at.run.status() == "interrupted"
    assert look.survivors() == []
    assert list(Path("tmp").iterdir()) == []
    at.resume()
    at.check(lost=2)


@pytest.mark.long
def test_the_coordinator_is_killed(stage: Any, look: Any) -> None:
    """Its workers and all their processes end by themselves, and the run can be resumed."""
    at = stage()
    workers = at.command.workers
    at.command.signal(signal.SIGKILL)
    at.command.wait()
    look.eventually(lambda: not look.survivors(), look.survivors)
    assert not [pid for pid in workers if look.command_line(pid)]
    assert [path.name for path in Path("tmp").iterdir() if "worker" in path.name] == []
    at.resume()
    at.check(lost=2)


@pytest.mark.long
def test_a_run_under_way(stage: Any, agentbench: Any, look: Any) -> None:
    """`runs show` names the workers of ended and running attempts; `report` contains the results."""
    at = stage()
    shown = agentbench("runs", "show", str(at.run.directory))
    assert (shown.code, shown.err) == (0, "")
    assert "local-1" in shown.out
    assert "local-2" in shown.out
    at.gates.open("one")
    look.eventually(lambda: list(at.run.records()))
    shown = agentbench("runs", "show", str(at.run.directory))
    assert (shown.code, shown.err) == (0, "")
    assert at.worker_of("one")[0] in shown.out
    assert at.worker_of("two")[0] in shown.out
    report = agentbench("report", "summary", "--run", str(at.run.directory))
    assert report.code == 0, report.err
    assert "**Pass rate 100.0%** (1 of " in report.out
    at.gates.open("two")
    done = at.command.wait()
    assert done.code == 0, done.err
    at.check(lost=0)


def test_what_a_running_worker_knows(stage: Any, look: Any) -> None:
    """Its variables contain no secrets, and no command line contains the token."""
    at = stage("--progress", "json", **SECRETS)
    for pid in at.command.workers:
        content = Path(f"/proc/{pid}/environ").read_text()
        variables = dict(line.split("=", 1) for line in content.split("\0") if line)
        assert without_secrets(variables) == variables
        assert "PATH" in variables
        assert not [value for value in SECRETS.values() if value in content]
        assert look.command_line(pid)[-3:] == ["worker", "run", "--stdin"]
        assert not [word for word in look.command_line(pid) if len(word) >= 64 and word.isalnum()]
    at.gates.open(*TASKS)
    done = at.command.wait()
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.err.splitlines()]
    kinds = [line["type"] for line in lines]
    assert {"run_started", "attempt_started", "phase_started", "attempt_finished", "run_finished"} <= {*kinds}
    assert {line["worker"] for line in lines if "worker" in line} <= {"local-1", "local-2"}
    assert kinds.count("attempt_finished") == 2
    at.check(lost=0)


@pytest.mark.long
def test_equal_to_a_run_in_threads(make_suite: Any, make_task: Any, agentbench: Any, look: Any) -> None:
    """Records, files and types of events, for tasks that pass, fail and cannot be set up.

    Modules in the current directory are not imported: workers are not started in the directory of a program.
    """
    Path("click.py").write_text("raise SystemExit('this is not click')")
    make_suite(TASKS)
    make_task("hard", agent={"entrypoint": "idle"})
    make_task("broken", setup={"commands": ["exit 7"], "capture": []})
    for out, flags in (("threads", ()), ("workers", TWO)):
        done = agentbench(*RUN, "--repeats", "2", *flags, "--out", out)
        assert done.code == 0, done.err
    threads, workers = look.only_run("threads"), look.only_run("workers")
    assert look.seen(workers) == look.seen(threads)
    assert look.event_types(workers) == look.event_types(threads)
    names = {name for task in (*TASKS, "hard", "broken") for name in look.starts(workers, task)}
    assert names == {"local-1", "local-2"}
