"""Deadlines in containers: no process of a command outlives its deadline, as seen in the host's /proc."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentbench_core import SandboxError
from agentbench_docker import channel

pytestmark = pytest.mark.docker

Start = Any
"""``Started`` of conftest.py, which test modules cannot import; ``Stage`` likewise."""

SOON = 60.0
DOCKERS_GRACE = 10.0
"""Seconds that ``docker stop`` waits for a process that ignores SIGTERM."""
FAMILY = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
def child(*, session=False, orphan=False):
    begun, beginning = os.pipe()
    first = os.fork()
    if first == 0:
        if session: os.setsid()
        if orphan and os.fork(): os._exit(0)
        os.write(beginning, b"."); time.sleep(600); os._exit(0)
    os.read(begun, 1)
    if orphan: os.waitpid(first, 0)
child(); child(session=True); child(orphan=True); child(session=True, orphan=True)
print("ready", flush=True)
"""
"""Children that try to escape: own session, orphaned, both; all ignore signals and hold the output open.

There are five processes once "ready" is printed.
"""
RESTLESS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        while True:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
time.sleep(600)
"""
"""Chains of processes that fork and exit, so that a process id is outdated as soon as it is read."""
BOMB = """
import os
while True:
    try: os.fork()
    except OSError: os.path.exists("full") or open("full", "w")
"""


def python(code: str, *, then: str = "") -> list[str]:
    return ["python3", "-c", code + then]


@pytest.mark.long
@pytest.mark.parametrize("hosted", [True, False], ids=["process-1", "docker-exec"])
def test_all_processes_of_a_command_die_at_the_deadline(stage: Any, hosted: bool) -> None:
    """T02, T03: setsid, double forks, ignored signals and an open stdout do not prevent the kill.

    Neither does ``timeout``, which waits forever for a child that ignores SIGTERM. The next call works.
    """
    asked = "signal.signal(signal.SIGTERM, lambda *_: open('asked', 'w'))"
    pause = 0 if hosted else 1  # the engine passes output on later than files
    alarm = f"time.sleep({pause}); os.kill(os.getppid(), signal.SIGALRM)"  # as if the time of ``timeout`` were over
    with stage.start(hosted=hosted) as started:
        command = ["timeout", "600", *python(FAMILY, then=f"{asked}; {alarm}; time.sleep(600); time.sleep(600)")]
        result = started.run(command, until="asked")
        assert (result.timed_out, result.exit_code, result.stdout.text) == (True, None, "ready\n")
        assert started.strangers() == []
        assert started.run("echo alive").stdout.text == "alive\n"


@pytest.mark.long
def test_deadline_ends_processes_that_a_killed_client_leaves(started: Start) -> None:
    """T01: a ``docker exec`` keeps running after its client is killed; our deadline ends the processes."""
    command = ["docker", "exec", started.id, *python(FAMILY, then="time.sleep(600)")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        client.kill()
    assert len(started.processes("python3 -c")) == 5
    result = started.run(python(FAMILY, then="time.sleep(600)"), seconds=0.7)
    assert result.timed_out
    assert len(started.processes("python3 -c")) == 5, "only the processes of the plain client should be left"
    container = started.id
    started.sandbox.close()
    assert subprocess.run(["docker", "inspect", container], capture_output=True).returncode == 1


@pytest.fixture(scope="module")
def shared(stage: Any) -> Iterator[Start]:
    """One sandbox for the tests after which it has no process left, and works."""
    with stage.start() as started:
        yield started


@pytest.mark.parametrize("signal", ["KILL", "TERM", "STOP"])
def test_signals_to_all_processes(shared: Start, signal: str) -> None:
    """T04, F11: a signal to all processes hits only commands; the next one works in the same container.

    A killed command has exit code 137; a stopped one ends at the deadline.
    """
    command = f"setsid sleep 600 & sleep 0.1; kill -{signal} -1; kill -{signal} 1; touch {signal}; sleep 600"
    container = shared.id
    result = shared.run(command, until=signal if signal == "STOP" else "")
    assert (result.exit_code, result.timed_out) in [(137, False), (143, False), (None, True)]
    assert (result.exit_code is None) == (signal == "STOP")
    assert shared.run("echo alive").stdout.text == "alive\n"
    assert shared.id == container
    if signal == "KILL":
        shared.wait_until_alone()


def test_command_that_stops_or_kills_its_supervisor(shared: Start) -> None:
    """F11: a stopped supervisor still enforces the deadline; killing it ends the command."""
    assert shared.run("kill -STOP $PPID; sleep 600", seconds=0.5).timed_out
    assert shared.strangers() == []
    killed = shared.run("setsid sleep 600 & kill -KILL $PPID; sleep 600")
    assert (killed.exit_code, killed.timed_out) == (137, False)
    assert shared.strangers() == [], "process 1 should kill what the supervisor left"
    assert shared.ask("echo alive") == "alive"


def test_short_lived_processes_are_killed(shared: Start) -> None:
    """T03: processes that live for less than a millisecond are killed, too."""
    result = shared.run(python(RESTLESS), seconds=0.5)
    assert result.timed_out
    assert shared.strangers() == []


@pytest.mark.release
def test_a_fork_bomb(started: Start) -> None:
    """T05, H15, F27: a fork bomb hits the process limit and is killed at its deadline; the next call works.

    If it is left in the background, the next call first kills everything and then runs.
    """
    result = started.run(python(BOMB), until="full")
    assert result.timed_out
    assert "pids" in result.limits_hit
    assert started.strangers() == []
    after = started.run("echo alive")
    assert (after.exit_code, after.stdout.text, after.limits_hit) == (0, "alive\n", ())

    begun = "until [ -e full ]; do :; done"  # without another process, which could not be started
    left = started.run(f"rm full; python3 -c {shlex.quote(BOMB)} </dev/null >/dev/null 2>&1 & {begun}; echo left")
    assert left.exit_code is not None
    after = started.run("echo alive")
    assert (after.exit_code, after.stdout.text) == (0, "alive\n")
    assert started.ask("echo again") == "again"


def test_zombies(shared: Start) -> None:
    """T08: zombies are reaped, also those of background processes; 200 of them would exceed the limit of 128."""
    code = "import os\nfor _ in range(100):\n  if os.fork() == 0: os.fork(); os._exit(0)\n  os.wait()"
    for _ in range(2):
        assert shared.run(python(code)).exit_code == 0
        shared.ask("(sleep 0.1 & exec sleep 0.2) >/dev/null 2>&1 &")
    shared.wait_until_alone()


@pytest.mark.parametrize("hosted", [True, False], ids=["process-1", "docker-exec"])
def test_closing_needs_no_grace_period(stage: Any, hosted: bool) -> None:
    """T06, T07: closing needs no grace period, even if all processes and process 1 ignore SIGTERM."""
    with stage.start(hosted=hosted) as started:
        started.run(python(FAMILY))
        assert len(started.processes("python3 -c")) == 4
        began = time.monotonic()
        started.sandbox.close()
        assert time.monotonic() - began < DOCKERS_GRACE
        assert started.processes() == []
        assert started.id not in stage.containers()


@pytest.mark.parametrize("hosted", [True, False], ids=["process-1", "docker-exec"])
def test_closing_while_a_command_runs(stage: Any, hosted: bool) -> None:
    """T06: closing from another thread makes the running call raise soon and leaves no processes."""
    with stage.start(hosted=hosted) as started:
        closer = threading.Thread(target=lambda: (started.wait_for("sleep 600"), started.sandbox.close()))
        closer.start()
        began = time.monotonic()
        with pytest.raises(SandboxError, match="closed"):
            started.run(["sleep", "600"])
        closer.join()
        assert time.monotonic() - began < DOCKERS_GRACE
        assert started.processes() == []


def test_paused_container_is_a_sandbox_error(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """T09, X02: a command in a container paused from outside raises SandboxError after deadline and grace.

    A command cannot pause its own container. A paused container can be closed.
    """
    monkeypatch.setattr(channel, "KILL_GRACE", 0.3)
    with stage.start() as started:
        assert subprocess.run(["docker", "pause", started.id], capture_output=True).returncode == 0
        refused = subprocess.run(["docker", "exec", started.id, "true"], capture_output=True, text=True)
        assert (refused.returncode, "paused" in refused.stderr) == (1, True), "docker exits with 1, like a failing test"
        with pytest.raises(SandboxError):
            started.run("true", seconds=0.3)
        began = time.monotonic()
        started.sandbox.close()
        assert time.monotonic() - began < DOCKERS_GRACE
        assert started.processes() == []


def test_one_off_command_leaves_no_process(stage: Any) -> None:
    """T06: processes left by a one-off command are killed when it ends and at its deadline."""
    known, family = stage.containers(), shlex.quote(FAMILY)
    result = stage.once(f"python3 -c {family}; exit 5")
    assert (result.exit_code, result.stdout.text, result.timed_out) == (5, "ready\n", False)
    result = stage.once(f"python3 -c {family}; touch begun; sleep 600", until="begun")
    assert (result.exit_code, result.stdout.text, result.timed_out) == (None, "ready\n", True)
    assert stage.containers() == known


@pytest.mark.long
def test_concurrent_removals_of_a_container(stage: Any) -> None:
    """F10: concurrent removals all succeed, although the engine refuses one that is "already in progress"."""
    for _ in range(2):
        with stage.start() as started, ThreadPoolExecutor(4) as pool:
            removals = [pool.submit(started.sandbox.container.remove) for _ in range(4)]
            assert [removal.result(60) for removal in removals] == [None] * 4
            gone = subprocess.run(["docker", "inspect", started.id], capture_output=True)
            assert gone.returncode == 1
