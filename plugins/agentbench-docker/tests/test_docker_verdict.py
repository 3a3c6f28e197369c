"""What a container's end says of a command: an exit code of its own, a limit, or that somebody else was there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import ExecResult, SandboxError
from agentbench_docker.container import Container

pytestmark = pytest.mark.docker

LINES = pytest.mark.parametrize("hosted", [True, False], ids=["process-1", "docker-exec"])
"""Both ways into a container: through our process 1, and for images without Python."""
TAKE_MEMORY = "python3 -c \"b'x' * (600 << 20)\""


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60)


def clients_of(container: str) -> list[int]:
    """Process ids of the docker clients that are attached to a container."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            if container.encode() in words and (place / "comm").read_text() == "docker\n":
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Does something while the test waits for a command. What it raises, fails the test."""
    threads: list[threading.Thread] = []
    errors: list[Exception] = []

    def start(work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                errors.append(error)

        threads.append(threading.Thread(target=guarded))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert errors == []


def running(stage: Any, known: set[str], command: str = "sleep 2.71") -> str:
    """The id of a container that runs a command and that was not known."""
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for container in set(stage.containers()) - known:
            if any(command in line for line in stage.processes_of(container)):
                return str(container)
        time.sleep(0.02)
    raise AssertionError("it was never started")


# --- exit codes --------------------------------------------------------------------------------------------------

CODES = {
    "true": 0,
    "exit 1": 1,
    "exit 7": 7,
    "exit 124": 124,
    "exit 126": 126,
    "exit 127": 127,
    "exit 137": 137,
    "kill -9 $$": 137,
    "kill -TERM $$": 143,
    "kill -INT $$": 130,
    "kill -PIPE $$": 141,
    "/no/such/program": 127,
    "/etc/passwd": 126,
}


@LINES
def test_exit_codes_of_commands(stage: Any, hosted: bool) -> None:
    """X01, X04, X05, X06: they are the program's own, whatever docker uses them for; none of them is a timeout."""
    with stage.start(hosted=hosted) as started:
        results = {command: started.run(command) for command in CODES}
        assert {command: result.exit_code for command, result in results.items()} == CODES
        assert not any(result.timed_out or result.limits_hit for result in results.values())
        if hosted:
            assert docker("exec", started.id, "sh", "-c", "exit 137").returncode == 137, "as if it had been killed"
            assert docker("exec", started.id, "/no/such/program").returncode in (126, 127), "as a program may say, too"
    assert docker("exec", started.id, "true").returncode == 1, "no container: as a failing test would end"


@pytest.mark.parametrize("command", ["exit 0", "exit 1", "exit 124", "exit 126", "exit 137", "kill -9 $$"])
def test_exit_codes_of_a_start_of_its_own(stage: Any, command: str) -> None:
    """X01, X04, X05, X06: the same where the engine has the last word, which must be that of process 1."""
    result = stage.once(command)
    expected = 137 if "kill" in command else int(command.removeprefix("exit "))
    assert (result.exit_code, result.timed_out, result.limits_hit) == (expected, False, ())


@LINES
def test_nothing_printed_is_an_exit_code(stage: Any, hosted: bool) -> None:
    """X07, C20, C21: a command that reads all there is to read around it cannot write its own verdict.

    Whatever tells the harness that a command has ended, and how, is out of the command's reach.
    """
    forge = """
        for id in 1 $PPID $$; do
            for number in 0 1 2 3 4 5 6 7 8 9; do
                echo '{"code": 0}' > /proc/$id/fd/$number
            done
            for word in $(tr '\\0' '\\n' < /proc/$id/cmdline) $(tr '\\0' '\\n' < /proc/$id/environ); do
                printf '\\n%s 0\\n' "$word" >&2
                printf '\\n%s 0\\n' "$word"
                sleep 0.02
            done
        done 2>&1 | cat >&2
        sleep 1
        exit 7
    """
    result = stage.once(forge, hosted=hosted)
    assert result.exit_code == 7, "it has forged an exit code"


def test_the_channel_is_out_of_reach(started: Any) -> None:
    """X07, H27: a command has three descriptors of its own, and opens none of process 1, nor of its supervisor."""
    assert started.ask(["ls", "/proc/self/fd"]).split() == ["0", "1", "2", "3"], "3 is the directory itself"
    reach = """
        for id in 1 $PPID; do
            for place in fd/0 fd/1 fd/2 mem environ root cwd; do
                (ls -l /proc/$id/$place && cat /proc/$id/$place) >/dev/null 2>&1 && echo $id/$place
            done
        done
        true
    """
    assert started.ask(reach) == ""
    ptrace = "import ctypes; print(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0))"  # PTRACE_ATTACH
    assert started.ask(["python3", "-c", ptrace.format(pid=1)]) == "-1"
    assert started.ask(["python3", "-c", ptrace.format(pid="__import__('os').getppid()")]) == "-1"


# --- ends from outside -------------------------------------------------------------------------------------------


@LINES
@pytest.mark.parametrize("action", ["rm --force", "kill", "restart --time 0"])
def test_ended_from_outside(stage: Any, meanwhile: Any, action: str, hosted: bool) -> None:
    """F10, X04: somebody removes, kills or restarts the container: a SandboxError, neither a pass nor a fail."""
    with stage.start(hosted=hosted) as started:

        def act() -> None:
            started.wait_for("sleep 60")
            assert docker(*action.split(), started.id).returncode == 0 or not hosted  # it may be gone by then

        meanwhile(act)
        with pytest.raises(SandboxError):
            started.run(["sleep", "60"])


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """An engine that says once more how a container was before."""

    def make(started: Any) -> None:
        asked, stale = Container.state, iter([started.sandbox.container.state()])
        monkeypatch.setattr(Container, "state", lambda self: next(stale, None) or asked(self))

    return make


@pytest.mark.parametrize("action", ["kill", "restart --time 0"])
def test_the_engine_hears_of_it_late(stage: Any, meanwhile: Any, late: Any, action: str) -> None:
    """X04: a command's end can be known before that of its container, which is said to run as before."""
    with stage.start(hosted=False) as started:
        late(started)

        def act() -> None:
            started.wait_for("sleep 60")
            docker(*action.split(), started.id)

        meanwhile(act)
        with pytest.raises(SandboxError):
            started.run(["sleep", "60"])


def test_the_engine_hears_of_it_late_while_a_file_is_written(stage: Any, late: Any) -> None:
    """X04: nor is that the file's fault."""
    with stage.start(hosted=False) as started:
        late(started)
        assert docker("kill", started.id).returncode == 0
        with pytest.raises(SandboxError):
            started.sandbox.write_file("app.txt", b"text")


def test_a_command_that_leaves_no_room(stage: Any) -> None:
    """F11, F27: where nothing more can be started, a command that ended its own wrapper is no outsider's doing."""
    fill = "try:\n    while os.fork(): pass\nexcept OSError: os.kill(os.getppid(), 9)\ntime.sleep(20)"
    with stage.start(hosted=False) as started:
        result = started.run(["python3", "-c", f"import os, time\n{fill}"])
        assert (result.exit_code, result.timed_out) == (137, False)
        assert started.ask("echo alive") == "alive"


@LINES
def test_asked_politely_from_outside(stage: Any, meanwhile: Any, hosted: bool) -> None:
    """X04: process 1 does not end from a signal that can be ignored; the command's result is its own."""
    with stage.start(hosted=hosted) as started:

        def act() -> None:
            started.wait_for("sleep 1")
            for name in ("TERM", "INT", "HUP"):
                assert docker("kill", "--signal", name, started.id).returncode == 0

        meanwhile(act)
        assert started.run("sleep 1; exit 7").exit_code == 7


@pytest.mark.parametrize("action", ["rm --force", "kill", "restart --time 0"])
def test_ended_from_outside_while_scoring(stage: Any, meanwhile: Any, action: str) -> None:
    """F10, X04: the same for a command in a start of its own."""
    known = set(stage.containers())
    meanwhile(lambda: _succeeds(docker(*action.split(), running(stage, known, "sleep 60"))))
    with pytest.raises(SandboxError):
        stage.once("sleep 60; exit 0")
    assert set(stage.containers()) <= known


def _succeeds(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_client_is_signalled_while_scoring(stage: Any, meanwhile: Any, number: signal.Signals) -> None:
    """X07, X08, T01: as by Ctrl-C: a plain client says 0 then. Here it is no result, or the command's own."""
    known = set(stage.containers())

    def act() -> None:
        clients = clients_of(running(stage, known))
        assert clients
        for client in clients:
            os.kill(client, number)

    meanwhile(act)
    ended = _outcome(lambda: stage.once("sleep 2.71; exit 7"))
    assert isinstance(ended, SandboxError) or ended.exit_code == 7
    assert set(stage.containers()) <= known


@LINES
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_the_client_is_signalled(stage: Any, meanwhile: Any, number: signal.Signals, hosted: bool) -> None:
    """X07, T01: for a command of an agent: no command ends a process of the host, so it is not counted against it."""
    with stage.start(hosted=hosted) as started:

        def act() -> None:
            started.wait_for("sleep 2.71")
            clients = clients_of(started.id)
            assert clients
            for client in clients:
                os.kill(client, number)

        meanwhile(act)
        ended = _outcome(lambda: started.run("sleep 2.71; exit 7"))
        assert isinstance(ended, SandboxError) or ended.exit_code == 7


def _outcome(call: Callable[[], ExecResult]) -> ExecResult | SandboxError:
    try:
        return call()
    except SandboxError as error:
        return error


# --- ends from inside --------------------------------------------------------------------------------------------

OUT_OF_TIME = """
    python3 -c 'import resource; resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))' || echo refused >&2
    head -c 12000000000 /dev/zero
"""
"""Has the kernel kill process 1 for the processor time that it takes to read so much output."""


def test_killing_process_1_by_its_limits(started: Any) -> None:
    """F11: a command that has the kernel kill its container is the one to blame: no SandboxError, the next one works.

    Process 1 and commands have the same user, who may set limits for all his processes.
    """
    result = started.run(OUT_OF_TIME)
    assert result.timed_out is False
    assert started.ask("echo alive") == "alive"


@pytest.mark.parametrize("what", ["AS", "NOFILE", "NPROC", "STACK"])
def test_starving_process_1(started: Any, what: str) -> None:
    """F11, F27: nor is it one when process 1 can no longer do its work: that is the end of a command, and no pass."""
    starve = f"import resource; resource.prlimit(1, resource.RLIMIT_{what}, (0, 0))"
    started.run(["python3", "-c", starve])
    for _ in range(2):
        result = started.run("exit 7")
        assert result.exit_code in (7, 126, 137, 139)


def test_killing_everybody_at_once(started: Any) -> None:
    """F11, T04: who does so in his first moment was started all the same: he is dead, and is not started again."""
    for command in ("kill -9 -1", "kill -9 $PPID") * 8:
        result = started.run(f"echo ran >> count; {command}; sleep 20")
        assert (result.exit_code, result.timed_out, result.limits_hit) == (137, False, ()), result.stderr.text
        assert started.ask("cat count; rm count") == "ran"


def test_killing_everybody_while_scoring(stage: Any) -> None:
    """F11, T04: tests that kill all they can, their supervisor included, have failed."""
    for _ in range(3):  # there is a race to be lost
        result = stage.once("kill -9 -1; exit 0")
        assert (result.exit_code, result.timed_out, result.limits_hit) == (137, False, ())


def test_a_fork_bomb_while_scoring(stage: Any) -> None:
    """F27, H15: left in the background it ends with the tests; it is noted, and the next start has all it needs."""
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = stage.once(f"python3 -c {shlex.quote(bomb)} >/dev/null 2>&1 & sleep 1; exit 3")
    assert result.exit_code in (2, 3), "2: the shell itself could not fork"
    assert "pids" in result.limits_hit
    after = stage.once("echo fine")
    assert (after.exit_code, after.stdout.text, after.limits_hit) == (0, "fine\n", ())


# --- memory ------------------------------------------------------------------------------------------------------


def test_out_of_memory(stage: Any, started: Any) -> None:
    """F12, F13, H16: the kernel's counter tells it, also where docker says nothing, or the command ends well."""
    own = started.run(f"exec {TAKE_MEMORY}")
    assert (own.exit_code, own.limits_hit) == (137, ("oom",))
    shown = docker("inspect", "--format", "{{.State.Running}}", started.id)
    assert shown.stdout == "true\n", "process 1 is the last to go"
    child = started.run(f"{TAKE_MEMORY}; exit 0")
    assert (child.exit_code, child.limits_hit) == (0, ("oom",))
    after = started.run("echo alive")
    assert (after.stdout.text, after.limits_hit) == ("alive\n", ())
    victims = {started.ask(["cat", "/proc/self/oom_score_adj"]) for _ in range(30)}
    assert victims == {"1000"}, "whatever a command starts, from its first moment on, goes before process 1"
    for command, code in ((f"exec {TAKE_MEMORY}", 137), (f"{TAKE_MEMORY}; exit 0", 0)):
        once = stage.once(command)
        assert (once.exit_code, once.limits_hit) == (code, ("oom",))


def test_memory_that_nobody_holds(stage: Any, started: Any) -> None:
    """H17: files in memory count, and nobody is left to be killed for them but process 1: the command's own doing."""
    fill = "head -c 400000000 /dev/zero > /dev/shm/x; head -c 200000000 /dev/zero > /tmp/x; echo filled; exit 0"
    result = started.run(fill)
    assert "oom" in result.limits_hit
    for _ in range(3):
        again = started.run("rm -f /dev/shm/x /tmp/x; echo alive")
        assert again.exit_code in (0, 137)
    assert again.stdout.text == "alive\n"
    once = stage.once(fill)
    assert "oom" in once.limits_hit
