"""No process of a command outlives the command or sandbox, verified by searching ``/proc``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Command, Deadline, Interrupted, SandboxError
from agentbench_local.sandbox import LocalSandbox

Make = Mark = Until = Any
"""Types from conftest.py, which test modules cannot import."""
SOON = 60.0
FAMILY = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
def child(*, session=False, orphan=False):
    if os.fork() == 0:
        if session: os.setsid()
        if orphan and os.fork(): os._exit(0)
        time.sleep(600); os._exit(0)
child(); child(session=True); child(orphan=True); child(session=True, orphan=True)
print("ready", flush=True)
"""
"""Children that try to escape: own session, orphaned, both; all ignore signals and hold the output open."""
RESTLESS = """
import os, sys, time
for _ in range(8):
    if os.fork() == 0:
        while True:
            if os.fork(): os._exit(0)
time.sleep(600)
"""
"""Chains of processes that fork and exit, so that a process id is stale as soon as it is read."""


def python(code: str, *, then: str = "") -> list[str]:
    return [sys.executable, "-c", code + then]


def test_all_processes_of_a_command_die_at_the_deadline(
    sandbox: LocalSandbox, workspace: Path, mark: Mark, until: Until
) -> None:
    """Despite setsid, double forks, ignored signals and an open stdout."""
    command = python(FAMILY, then="open('begun', 'w'); time.sleep(600)")
    result = sandbox.exec(command, deadline=until(workspace / "begun"), env=mark.env)
    assert (result.timed_out, result.exit_code, result.stdout.text) == (True, None, "ready\n")
    assert result.duration_sec < SOON
    assert mark.alive() == []


def test_short_lived_processes_are_killed(sandbox: LocalSandbox, mark: Mark) -> None:
    """Even processes that live for less than a millisecond are killed."""
    result = sandbox.exec(python(RESTLESS), deadline=Deadline(0.3), env=mark.env)
    assert result.timed_out
    assert result.duration_sec < SOON
    assert mark.alive() == []


def test_many_processes_die(sandbox: LocalSandbox, mark: Mark) -> None:
    """A small fork bomb: 255 processes in eight generations."""
    code = "import os, time\nfor _ in range(8): os.fork()\ntime.sleep(600)"
    result = sandbox.exec(python(code), deadline=Deadline(0.6), env=mark.env)
    assert result.timed_out
    assert mark.alive() == []


def test_background_processes_live_until_close(sandbox: LocalSandbox, mark: Mark) -> None:
    """As in a container. The call returns immediately, although they hold its output open."""
    result = sandbox.exec(python(FAMILY), deadline=Deadline(SOON), env=mark.env)
    assert (result.exit_code, result.stdout.text) == (0, "ready\n")
    assert result.duration_sec < SOON
    mark.wait_for(4)
    assert sandbox.exec("true", deadline=Deadline(SOON)).exit_code == 0
    assert len(mark.alive()) == 4
    sandbox.close()
    assert mark.alive() == []


def test_background_process_can_keep_printing(sandbox: LocalSandbox, workspace: Path, mark: Mark) -> None:
    """Its output is discarded, but it neither blocks nor gets SIGPIPE."""
    command = "(sleep 0.4; head -c 300000 /dev/zero; touch printed; sleep 600) & echo started"
    assert sandbox.exec(command, deadline=Deadline(SOON), env=mark.env).stdout.text == "started\n"
    give_up_at = time.monotonic() + SOON
    while not (workspace / "printed").exists():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    sandbox.close()
    assert mark.alive() == []


def test_close_from_another_thread(sandbox: LocalSandbox, mark: Mark) -> None:
    """The command is killed, and the call raises instead of returning a result."""

    def close_when_started() -> None:
        mark.wait_for(5)
        sandbox.close()

    closer = threading.Thread(target=close_when_started)
    closer.start()
    started_at = time.monotonic()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.exec(python(FAMILY, then="time.sleep(600)"), deadline=Deadline(SOON), env=mark.env)
    closer.join()
    assert time.monotonic() - started_at < SOON
    assert mark.alive() == []
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.exec("true", deadline=Deadline(SOON))


def test_concurrent_closes(sandbox: LocalSandbox, mark: Mark) -> None:
    """When ``close`` returns in any thread, all processes are gone."""
    sandbox.exec(python(FAMILY), deadline=Deadline(SOON), env=mark.env)
    left: list[list[int]] = []

    def close_and_look() -> None:
        sandbox.close()
        left.append(mark.alive())

    closers = [threading.Thread(target=close_and_look) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert left == [[], [], [], []]


def test_interrupting(sandbox: LocalSandbox, mark: Mark) -> None:
    """An interrupt kills all processes, and is raised with its reason."""
    deadline = Deadline(SOON)

    def stop_when_started() -> None:
        mark.wait_for(5)
        deadline.end(Interrupted("stop"))

    stopper = threading.Thread(target=stop_when_started)
    stopper.start()
    with pytest.raises(Interrupted, match="stop"):
        sandbox.exec(python(FAMILY, then="time.sleep(600)"), deadline=deadline, env=mark.env)
    stopper.join()
    assert mark.alive() == []


def test_run_once_leaves_no_process(make: Make, workspace: Path, mark: Mark) -> None:
    """Background processes are killed when the main process ends."""
    command = f"AGENTBENCH_TEST_MARK={mark.value} {sys.executable} -c '{FAMILY.replace(chr(39), chr(34))}'; exit 5"
    result = make().run_once(Command(command), workspace, Deadline(SOON))
    assert (result.exit_code, result.stdout.text) == (5, "ready\n")
    assert mark.alive() == []


@pytest.mark.parametrize("command", ["kill -STOP $PPID; sleep 600", "while kill -STOP $PPID; do :; done"])
def test_a_command_that_stops_its_supervisor(command: str, sandbox: LocalSandbox, mark: Mark) -> None:
    """The supervisor is resumed as often as necessary, and kills the command."""
    result = sandbox.exec(command, deadline=Deadline(0.3), env=mark.env)
    assert result.timed_out
    assert mark.alive() == []


def test_a_command_that_kills_its_supervisor(sandbox: LocalSandbox, mark: Mark) -> None:
    """This ends the command, as if it had killed its container."""
    result = sandbox.exec("kill -KILL $PPID; sleep 600", deadline=Deadline(SOON), env=mark.env)
    assert (result.exit_code, result.timed_out) == (128 + signal.SIGKILL, False)
    mark.wait_for(0)


def test_a_killed_harness_leaves_no_process(tmp_path: Path, mark: Mark) -> None:
    """After SIGKILL there is no cleanup; the supervisors detect that the harness is gone."""
    code = f"""
import sys, tempfile
from pathlib import Path
from agentbench_core import Deadline
from agentbench_local.process import Order, Supervision
supervision = Supervision()
for then in ("", "time.sleep(600)"):
    argv = [sys.executable, "-c", {FAMILY!r} + then]
    command = supervision.start(Order(argv=argv, env={mark.env!r}, cwd="/", memory=1 << 32))
    command.wait(Deadline(60))
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as harness:
        mark.wait_for(4 + 5)
        others = _children(harness.pid)
        harness.kill()
    assert len(others) == 1, "expected only the server that forks supervisors"
    mark.wait_for(0)
    give_up_at = time.monotonic() + SOON
    while any(_children(pid) or Path(f"/proc/{pid}").exists() for pid in others):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def _children(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if int((place / "stat").read_bytes().rpartition(b")")[2].split()[1]) == parent:
                found.append(int(place.name))
        except OSError:
            continue
    return found


def test_memory_limit(make: Make, workspace: Path) -> None:
    """A process that exceeds its limit gets a ``MemoryError``."""
    sandbox = make(mem_limit_mb=128).start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
    small, large = (
        sandbox.exec(["python", "-c", f"len(bytearray({size} << 20))"], deadline=Deadline(SOON)) for size in (32, 300)
    )
    assert (small.exit_code, large.exit_code) == (0, 1)
    assert "MemoryError" in large.stderr.text
    sandbox.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor cannot be divided")
def test_processor_limit(make: Make, workspace: Path) -> None:
    """Each sandbox gets the requested number of processors, and the next one gets others."""
    environment = make(cpu_limit=1)
    seen = []
    for _ in range(2):
        sandbox = environment.start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
        asked = sandbox.exec(
            ["python", "-c", "import os; print(os.sched_getaffinity(0))"], deadline=Deadline(SOON)
        ).stdout.text
        seen.append(asked)
        sandbox.close()
    assert all("," not in each for each in seen)
    assert seen[0] != seen[1]
