"""How a command's result follows from the end of its container: exit codes, limits and outside interference."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
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
"""Commands run through our process 1, or by ``docker exec`` as in images without Python."""
TAKE_MEMORY = "python3 -c \"b'x' * (600 << 20)\""


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60)


def clients_of(container: str) -> list[int]:
    """Return the process ids of docker clients attached to a container."""
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
    """Run functions while the test waits for a command; their errors fail the test."""
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


@pytest.fixture
def shared(sandbox_of: Callable[[bool], Any], hosted: bool) -> Any:
    """A sandbox for the tests after which it works as before; ``hosted`` is the parameter of ``LINES``."""
    return sandbox_of(hosted)


@pytest.fixture(scope="module")
def sandbox_of(stage: Any) -> Iterator[Callable[[bool], Any]]:
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda hosted: stack.enter_context(stage.start(hosted=hosted)))


LONG, SHORT = (f"sleep {seconds}{os.getpid()}{secrets.randbelow(10**6):06}" for seconds in ("60.", "2.71"))
"""Commands that no other process of this machine runs: one-off containers are found by them."""


def running(sleep: str) -> str:
    """Wait until a container runs ``LONG`` or ``SHORT``, and return its id; does not ask the engine all the time."""
    command = sleep.replace(" ", "\0").encode() + b"\0"
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (place / "cmdline").read_bytes() == command:
                    (found,) = set(re.findall("[0-9a-f]{64}", (place / "cgroup").read_text()))
                    return str(found)
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
def test_exit_codes_of_commands(shared: Any, hosted: bool) -> None:
    """X01, X04, X05, X06: exit codes that docker itself uses are the program's own, and not a timeout."""
    results = {command: shared.run(command) for command in CODES}
    assert {command: result.exit_code for command, result in results.items()} == CODES
    assert not any(result.timed_out or result.limits_hit for result in results.values())
    if hosted:
        assert docker("exec", shared.id, "sh", "-c", "exit 137").returncode == 137, "137 looks like a kill"
        assert docker("exec", shared.id, "/no/such/program").returncode in (126, 127), "programs use these, too"
        absent = "0" * 64
        assert docker("exec", absent, "true").returncode == 1, "docker exits with 1, like a failing test"


@pytest.mark.parametrize("code", [124, 126, 137])
def test_exit_codes_of_one_off_commands(stage: Any, code: int) -> None:
    """X01, X04, X05, X06: the same for one-off commands, whose exit code the engine reports.

    The conformance suite checks other codes and a signal.
    """
    result = stage.once(f"exit {code}")
    assert (result.exit_code, result.timed_out, result.limits_hit) == (code, False, ())


@pytest.mark.long
@LINES
def test_command_cannot_forge_its_exit_code(stage: Any, hosted: bool) -> None:
    """X07, C20, C21: a command cannot forge its exit code, whatever it reads from its surroundings.

    The channel that reports how a command ended is out of its reach.
    """
    forge = """
        for id in 1 $PPID $$; do
            for number in 0 1 2 3 4 5 6 7 8 9; do
                echo '{"code": 0}' > /proc/$id/fd/$number
            done
            cat /proc/$id/cmdline /proc/$id/environ >> read
        done 2>&1 | cat >&2
        for word in $(tr '\\0[:blank:]' '\\n' < read | sort --unique); do
            printf '\\n%s 0\\n' "$word" >&2
            printf '\\n%s 0\\n' "$word"
            sleep 0.02
        done 2>&1 | cat >&2
        sleep 0.3
        exit 7
    """
    result = stage.once(forge, hosted=hosted)
    assert result.exit_code == 7, "the command forged its exit code"


def test_command_cannot_access_the_channel(sandbox_of: Callable[[bool], Any]) -> None:
    """X07, H27: a command has three descriptors and cannot open those of process 1 or its supervisor."""
    started = sandbox_of(True)
    assert started.ask(["ls", "/proc/self/fd"]).split() == ["0", "1", "2", "3"], "descriptor 3 is the listed directory"
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


# --- ended from outside ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "hosted"), [("rm --force", True), ("kill", True), ("restart --time 0", True), ("rm --force", False)]
)
def test_container_ended_from_outside_is_a_sandbox_error(stage: Any, meanwhile: Any, action: str, hosted: bool) -> None:
    """F10, X04: removing, killing or restarting the container raises SandboxError, neither a pass nor a fail.

    The next test kills and restarts containers without Python.
    """
    with stage.start(hosted=hosted) as started:

        def act() -> None:
            started.wait_for("sleep 60")
            assert docker(*action.split(), started.id).returncode == 0 or not hosted  # it may have ended already

        meanwhile(act)
        with pytest.raises(SandboxError):
            started.run(["sleep", "60"])


@pytest.fixture
def stale_state(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make the engine report the container's previous state once more."""

    def make(started: Any) -> None:
        asked, stale = Container.state, iter([started.sandbox.container.state()])
        monkeypatch.setattr(Container, "state", lambda self: next(stale, None) or asked(self))

    return make


@pytest.mark.parametrize("action", ["kill", "restart --time 0"])
def test_killed_container_still_reported_as_running(stage: Any, meanwhile: Any, stale_state: Any, action: str) -> None:
    """X04: a container killed from outside raises SandboxError, even if the engine still reports it as running."""
    with stage.start(hosted=False) as started:
        stale_state(started)

        def act() -> None:
            started.wait_for("sleep 60")
            docker(*action.split(), started.id)

        meanwhile(act)
        with pytest.raises(SandboxError):
            started.run(["sleep", "60"])


def test_write_to_a_killed_container_still_reported_as_running(stage: Any, stale_state: Any) -> None:
    """X04: the same holds for writing a file."""
    with stage.start(hosted=False) as started:
        stale_state(started)
        assert docker("kill", started.id).returncode == 0
        with pytest.raises(SandboxError):
            started.sandbox.write_file("app.txt", b"text")


@pytest.mark.release
def test_command_that_kills_its_wrapper_at_the_process_limit(sandbox_of: Callable[[bool], Any]) -> None:
    """F11, F27: at the process limit, a command that kills its own wrapper gets exit code 137, not SandboxError."""
    started = sandbox_of(False)
    fill = "try:\n    while os.fork(): pass\nexcept OSError: os.kill(os.getppid(), 9)\ntime.sleep(20)"
    result = started.run(["python3", "-c", f"import os, time\n{fill}"])
    assert (result.exit_code, result.timed_out) == (137, False)
    assert started.ask("echo alive") == "alive"


@LINES
def test_process_1_ignores_term_int_and_hup(shared: Any, meanwhile: Any) -> None:
    """X04: process 1 ignores TERM, INT and HUP; the command keeps its own exit code."""

    def act() -> None:
        shared.wait_for("sleep 0.071")
        for name in ("TERM", "INT", "HUP"):
            assert docker("kill", "--signal", name, shared.id).returncode == 0
        (shared.workspace / "signalled").touch()

    meanwhile(act)
    assert shared.run("until [ -e signalled ]; do sleep 0.071; done; exit 7").exit_code == 7


@pytest.mark.parametrize("action", ["rm --force", "kill", "restart --time 0"])
def test_one_off_container_ended_from_outside_is_a_sandbox_error(stage: Any, meanwhile: Any, action: str) -> None:
    """F10, X04: the same for one-off commands."""
    known = set(stage.containers())
    meanwhile(lambda: _succeeds(docker(*action.split(), running(LONG))))
    with pytest.raises(SandboxError):
        stage.once(f"{LONG}; exit 0")
    assert set(stage.containers()) <= known


def _succeeds(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_client_is_signalled_while_scoring(stage: Any, meanwhile: Any, number: signal.Signals) -> None:
    """X07, X08, T01: a signalled client, which exits 0, gives a SandboxError or the command's own result."""
    known = set(stage.containers())

    def act() -> None:
        clients = clients_of(running(SHORT))
        assert clients
        for client in clients:
            os.kill(client, number)

    meanwhile(act)
    ended = _outcome(lambda: stage.once(f"{SHORT}; exit 7"))
    assert isinstance(ended, SandboxError) or ended.exit_code == 7
    assert set(stage.containers()) <= known


@LINES
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_the_client_is_signalled(stage: Any, meanwhile: Any, number: signal.Signals, hosted: bool) -> None:
    """X07, T01: the same for an agent's command, which is not blamed."""
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


# --- ended from inside -------------------------------------------------------------------------------------------

OUT_OF_TIME = """
    python3 -c 'import resource; resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))' && head -c 12000000000 /dev/zero
"""
"""Makes the kernel kill process 1 for the CPU time that it uses to read the output, unless the limit is refused."""


def test_killing_process_1_by_its_limits(started: Any) -> None:
    """F11: a command that kills its container by resource limits gets no SandboxError; the next one works.

    Process 1 and commands run as the same user, who may set the limits of all its processes.
    """
    result = started.run(OUT_OF_TIME)
    assert result.timed_out is False
    assert started.ask("echo alive") == "alive"


@pytest.mark.parametrize("what", ["AS", "NOFILE", "NPROC", "STACK"])
def test_starving_process_1(started: Any, what: str) -> None:
    """F11, F27: starving process 1 of resources ends a command without a SandboxError, and not as a pass."""
    starve = f"import resource; resource.prlimit(1, resource.RLIMIT_{what}, (0, 0))"
    started.run(["python3", "-c", starve])
    for _ in range(2):
        result = started.run("exit 7")
        assert result.exit_code in (7, 126, 137, 139)


@pytest.mark.long
def test_command_that_kills_all_processes_is_not_restarted(sandbox_of: Callable[[bool], Any]) -> None:
    """F11, T04: a command that kills everything at once has exit code 137 and is not started a second time."""
    started = sandbox_of(True)
    for command in ("kill -9 -1", "kill -9 $PPID") * 8:
        result = started.run(f"echo ran >> count; {command}; sleep 20")
        assert (result.exit_code, result.timed_out, result.limits_hit) == (137, False, ()), result.stderr.text
        assert started.ask("cat count; rm count") == "ran"


def test_one_off_command_that_kills_all_processes_fails(stage: Any) -> None:
    """F11, T04: tests that kill everything, including their supervisor, fail."""
    for _ in range(3):  # the outcome may depend on a race
        result = stage.once("kill -9 -1; exit 0")
        assert (result.exit_code, result.timed_out, result.limits_hit) == (137, False, ())


def test_a_fork_bomb_while_scoring(stage: Any) -> None:
    """F27, H15: a fork bomb left in the background ends with the tests, and its limit is recorded."""
    bomb = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.1)"
    result = stage.once(f"python3 -c {shlex.quote(bomb)} >/dev/null 2>&1 & sleep 1; exit 3")
    assert result.exit_code in (2, 3), "exit code 2 means that the shell could not fork"
    assert "pids" in result.limits_hit


# --- memory ------------------------------------------------------------------------------------------------------


def test_out_of_memory(stage: Any, started: Any) -> None:
    """F12, F13, H16: running out of memory is detected by the kernel's counter, even if the command exits 0."""
    own = started.run(f"exec {TAKE_MEMORY}")
    assert (own.exit_code, own.limits_hit) == (137, ("oom",))
    shown = docker("inspect", "--format", "{{.State.Running}}", started.id)
    assert shown.stdout == "true\n", "process 1 should be killed last"
    child = started.run(f"{TAKE_MEMORY}; exit 0")
    assert (child.exit_code, child.limits_hit) == (0, ("oom",))
    after = started.run("echo alive")
    assert (after.stdout.text, after.limits_hit) == ("alive\n", ())
    victims = {started.ask(["cat", "/proc/self/oom_score_adj"]) for _ in range(10)}
    assert victims == {"1000"}, "processes of a command should be killed before process 1"
    once = stage.once(f"{TAKE_MEMORY}; exit 0")
    assert (once.exit_code, once.limits_hit) == (0, ("oom",))


@pytest.mark.long
def test_tmpfs_files_count_as_memory(stage: Any, started: Any) -> None:
    """H17: files in tmpfs count as memory; filling it is attributed to the command, even if process 1 is killed."""
    fill = "head -c 400000000 /dev/zero > /dev/shm/x; head -c 200000000 /dev/zero > /tmp/x; echo filled; exit 0"
    result = started.run(fill)
    assert "oom" in result.limits_hit
    for _ in range(3):
        again = started.run("rm -f /dev/shm/x /tmp/x; echo alive")
        assert again.exit_code in (0, 137)
    assert again.stdout.text == "alive\n"
    once = stage.once(fill)
    assert "oom" in once.limits_hit
