"""Docker engines that die, hang or are missing during runs, and a harness that dies. Uses a separate daemon."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Command, Deadline, EnvironmentSpec, SandboxError, open_run
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker import channel, container, provider
from agentbench_docker.client import DEFAULT_HOST, Client
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from tests.docker.engines import OURS, Engine, private_engine, wait_until

pytestmark = pytest.mark.docker

AGENTBENCH = str(Path(sys.executable).parent / "agentbench")
# The tests find these processes among all of this machine, on which other processes of pytest may run the same tests.
ASLEEP, JUDGING, SETTING_UP = (("sleep", f"{seconds}{os.getpid():07}") for seconds in ("61.", "5.21", "64."))
SLEEPS_ONCE = f'test -e "$PIP_CACHE_DIR/begun" || {{ touch "$PIP_CACHE_DIR/begun"; {" ".join(SETTING_UP)}; }}'
"""A setup command that sleeps once: its marker survives in pip's cache directory on the host."""

PLUGIN = """
    import os, pathlib, signal
    import attrs
    from agentbench_core import AgentResult, Command, Score, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Fixes:
        '''The first one to be told so sleeps before it fixes anything.'''

        def solve(self, context):
            begun = pathlib.Path("begun")
            if "sleep" in context.instruction and not begun.exists():
                begun.touch()
                self.run(context, ASLEEP)
            self.run(context, "echo fixed > app.txt")
            return AgentResult()

        def run(self, context, command):
            context.tools.call(ToolCall(tool="run", arguments={"command": command}))

    class Hangs:
        '''Stops the engine for as long as it judges, for which two seconds are left.'''

        def score(self, context):
            workspace, engine = context.fork(), int(os.environ["ENGINE_PID"])
            os.kill(engine, signal.SIGSTOP)
            try:
                result = context.environment.run_once(Command("true"), workspace, context.deadline.within(2))
            finally:
                os.kill(engine, signal.SIGCONT)
            return Score(passed=result.ok, exit_code=result.exit_code)

    @hookimpl
    def agentbench_register_agents(register):
        register("fixes", lambda options: Fixes(), Options, summary="")

    @hookimpl
    def agentbench_register_scorers(register):
        register("hangs", lambda options: Hangs(), Options, summary="")
""".replace("ASLEEP", repr(" ".join(ASLEEP)))


@pytest.fixture(scope="module")
def dockerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A daemon for this module, with the runner's image."""
    with private_engine(tmp_path_factory.mktemp("engine")) as engine:
        engine.add_image()
        yield engine


@pytest.fixture
def engine(dockerd: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engine]:
    """The daemon, with temporary files of the test's own. It is running again after the test."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("DOCKER_HOST", dockerd.host)
    monkeypatch.setenv("ENGINE_PID", str(dockerd.pid))
    yield dockerd
    assert dockerd.process is not None
    if dockerd.process.poll() is not None:
        dockerd.start()
    dockerd.process.send_signal(signal.SIGCONT)


@pytest.fixture
def site(plugin: Any) -> str:
    return str(plugin("faults", PLUGIN))


def running(*words: str) -> bool:
    """Whether a process has exactly this command line."""
    wanted = b"".join(word.encode() + b"\0" for word in words)
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cmdline").read_bytes() == wanted:
                return True
    return False


def only_run() -> Path:
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def verdicts() -> dict[str, tuple[str, bool, bool]]:
    """Outcome, scored and passed of each task, as readers see them."""
    return {
        record.task_id: (record.outcome, record.scored, record.result.passed)
        for record in open_run(only_run()).records()
    }


def temporary() -> list[Path]:
    return list(Path(tempfile.gettempdir()).iterdir())


UNSCORED = ("sandbox_error", False, False)
PASSED = ("completed", True, True)


# --- F07, F08: the daemon dies -----------------------------------------------------------------------------------


@pytest.mark.release
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_attempts_are_unscored_if_the_daemon_dies_and_repeated_by_resume(
    engine: Engine, site: str, make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    """F07, F08, X03: dockerd ends while one attempt runs and one is scored: both are unscored, resume repeats them.

    After SIGKILL the socket waits for the next daemon, as with systemd: that daemon then reports the end of a container
    that it killed itself when it started, which must not be taken for the command's own end. An attempt that starts
    meanwhile is made. After SIGTERM no requests are answered until the daemon is back.
    """
    waits = how is signal.SIGKILL
    monkeypatch.setenv("DOCKER_HOST", engine.activated if waits else engine.host)
    make_task("asleep", description="First sleep, then mend it.")
    make_task("judged", validation={"passing_command": f"{' '.join(JUDGING)}; grep -q fixed app.txt"})
    make_task("late")
    troubles: list[Exception] = []

    def strike() -> None:
        try:
            wait_until(lambda: Path("begun").exists() and running(*JUDGING))
            engine.end(how)
            engine.start()
        except Exception as error:  # noqa: BLE001 - reported by the test
            troubles.append(error)

    striking = threading.Thread(target=strike)
    striking.start()
    done = agentbench("run", "--suite", "mini", "--agent", "fixes", "--sandbox", "docker", "--workers", "2")
    striking.join()
    assert troubles == [], done.err
    assert done.code == 0, done.err
    found = verdicts()
    assert found.pop("late") in ([PASSED] if waits else [PASSED, UNSCORED]), done.err
    assert found == {"asleep": UNSCORED, "judged": UNSCORED}, done.err

    again = agentbench("run", "--resume", str(only_run()))
    assert again.code == 0, again.err
    assert verdicts() == dict.fromkeys(("asleep", "judged", "late"), PASSED), again.err
    assert engine.has() == []
    assert not running(*JUDGING)
    assert temporary() == []


# --- F28: the daemon hangs ---------------------------------------------------------------------------------------

SPEC = EnvironmentSpec(
    commit="0" * 40, settings=EnvironmentSettings(network_policy="none", mem_limit_mb=512), setup=Setup(capture=())
)


class Quiet:
    """The setup log of a task without setup commands."""

    def started(self, command: str) -> None:
        raise AssertionError(command)

    def finished(self, command: str, result: object) -> None:
        raise AssertionError(command)

    def reused(self, command: str, result: object) -> None:
        raise AssertionError(command)


@contextlib.contextmanager
def stopped(engine: Engine) -> Iterator[None]:
    """Stop the daemon with SIGSTOP, and reduce the provider's time limits from minutes to one second.

    An alarm continues the daemon if a call would wait forever.
    """
    rung = threading.Event()

    def ring() -> None:
        rung.set()
        os.kill(engine.pid, signal.SIGCONT)

    alarm = threading.Timer(90, ring)
    with pytest.MonkeyPatch.context() as patch:
        patch_at_most(patch, 1.0)
        for module, name in (
            (channel, "KILL_GRACE"),
            (channel, "START_GRACE"),
            (channel, "END_GRACE"),
            (container, "REMOVE_SEC"),
            (provider, "LOOK_SEC"),
        ):
            patch.setattr(module, name, 1.0)
        alarm.start()
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            alarm.cancel()
            os.kill(engine.pid, signal.SIGCONT)
    assert not rung.is_set(), "a call waited for an engine that does not answer"


def patch_at_most(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set how long a single call of the client may take."""
    defaults = Client.call.__kwdefaults__
    assert defaults is not None
    assert "at_most" in defaults
    patch.setitem(defaults, "at_most", seconds)


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[], Path]:
    """Create directories that belong to a sandbox."""
    numbers = iter(range(100))

    def make() -> Path:
        path = tmp_path / f"tree-{next(numbers)}"
        path.mkdir()
        return path

    return make


@pytest.mark.release
def test_every_call_ends_when_the_daemon_hangs(engine: Engine, tree: Callable[[], Path]) -> None:
    """F28: with a stopped dockerd, no call waits forever, and each raises SandboxError.

    When the daemon continues, the provider works again.
    """
    with contextlib.closing(DockerProvider(DockerOptions())) as made:
        environment = made.prepare(SPEC, tree(), Quiet(), Deadline(60))

        def start(seconds: float) -> Any:
            return environment.start(tree(), read_only=False, network=False, deadline=Deadline(seconds))

        def run_once(seconds: float) -> Any:
            return environment.run_once(Command("true"), tree(), Deadline(seconds))

        running_one, reading_one = start(60), start(60)
        with stopped(engine):
            calls: dict[str, Callable[[], Any]] = {
                "exec": lambda: running_one.exec("true", deadline=Deadline(1)),
                "read_file": lambda: reading_one.read_file("x", limit=1),
                "start": lambda: start(30),
                "run_once": lambda: run_once(30),
                "prepare": lambda: made.prepare(SPEC, tree(), Quiet(), Deadline(30)),
                "sweep": made.sweep,
                "close": running_one.close,
            }
            ended = {name: _how_it_ends(call) for name, call in calls.items()}
            with contextlib.closing(DockerProvider(DockerOptions())) as other:
                refused = _how_it_ends(lambda: other.preflight([SPEC]))
        running_one.close()
        assert run_once(60).exit_code == 0
    assert engine.has() == []
    assert temporary() == []
    assert ended == dict.fromkeys(calls, "SandboxError"), ended
    assert refused.startswith("UnavailableError: the Docker engine at"), refused
    assert "did not answer within 1 s" in refused


def _how_it_ends(call: Callable[[], Any]) -> str:
    try:
        return f"returns {call()!r}"
    except SandboxError:
        return "SandboxError"
    except Exception as error:  # noqa: BLE001 - any other exception is the failure that is tested for
        return f"{type(error).__name__}: {error}"


@pytest.mark.release
def test_hanging_daemon_is_not_a_timeout_of_the_agent(
    engine: Engine, site: str, make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F28: if the engine hangs until the deadline before any command starts, the attempt is unscored, not timed out."""
    patch_at_most(monkeypatch, 6.0)
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "fixes", "--sandbox", "docker", "--set", "scorer.name=hangs")
    assert done.code == 0, done.err
    assert verdicts() == {"one": UNSCORED}, done.err


# --- F14: the harness dies ---------------------------------------------------------------------------------------


@pytest.mark.release
def test_containers_of_a_killed_harness_stop_at_once_and_the_next_start_removes_them(
    engine: Engine, site: str, make_task: Any, tree: Callable[[], Path], tmp_path: Path
) -> None:
    """F14: after SIGKILL during an agent and a setup, their commands end, because their standard input closes.

    ``--resume`` removes containers, network and scratch directories of the dead harness, but nothing of a live
    provider.
    """
    make_task("asleep", description="First sleep, then mend it.")
    make_task("setup", setup={"commands": [SLEEPS_ONCE]}, environment={"network_policy": "setup_only"})
    own = os.environ | {"TMPDIR": tempfile.gettempdir(), "PYTHONPATH": site}
    command = [AGENTBENCH, "run"]
    new = [*command, *("--suite", "mini", "--agent", "fixes", "--sandbox", "docker", "--workers", "2")]
    with contextlib.closing(DockerProvider(DockerOptions())) as living:
        environment = living.prepare(SPEC, tree(), Quiet(), Deadline(60))
        sandbox = environment.start(tree(), read_only=False, network=False, deadline=Deadline(60))
        mine, scratch = set(engine.has()), set(temporary())
        with subprocess.Popen(new, env=own) as harness:
            wait_until(lambda: running(*ASLEEP) and running(*SETTING_UP))
            harness.kill()
        wait_until(lambda: set(engine.docker("ps", "-q", "--filter", OURS).stdout.split()) == mine)
        assert not running(*ASLEEP)
        assert not running(*SETTING_UP)
        left = set(engine.has()) - mine
        assert len(left) == 3, "two containers and a network"
        assert len(set(temporary()) - scratch) == 2, "the scratch directories of the run and of the provider"

        done = subprocess.run([*command, "--resume", str(only_run())], env=own, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert verdicts() == dict.fromkeys(("asleep", "setup"), PASSED), done.stderr
        assert set(engine.has()) == mine
        assert set(temporary()) == scratch
        said = [line for line in done.stderr.splitlines() if "removed leftovers from a dead run" in line]
        assert [sum(f": {kind} " in line for line in said) for kind in ("container", "network")] == [2, 1], done.stderr
        assert sandbox.exec("echo alive", deadline=Deadline(10)).stdout.text == "alive\n"
    assert engine.has() == []


# --- F09: no daemon, or not one that can be used -----------------------------------------------------------------
# These tests only ask a daemon, so they use the one of this machine: it takes long to start one and to fill it.


def check_refused(done: Any, *words: str) -> None:
    """Check that a run was refused: exit code 3, a reason with a remedy, and nothing recorded."""
    assert done.code == 3, done.err
    for word in words:
        assert word in done.err
    assert not Path("artifacts/runs").exists() or not list(Path("artifacts/runs").iterdir())


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            "unix:///nowhere/docker.sock",
            ("cannot reach a Docker engine at unix:///nowhere/docker.sock", "start dockerd"),
        ),
        ("tcp://127.0.0.1:9", ("cannot reach a Docker engine at tcp://127.0.0.1:9", "DOCKER_HOST")),
    ],
)
def test_no_daemon(
    make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch, host: str, words: tuple[str, ...]
) -> None:
    """F09: ``run`` exits with 3 and records nothing, ``doctor`` warns, and both name the remedy."""
    monkeypatch.setenv("DOCKER_HOST", host)
    make_task()
    check_refused(agentbench("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "docker"), *words)
    check = sandbox_check(agentbench)
    assert check["status"] == "warning"
    for word in words:
        assert word in check["detail"] + check["remedy"]


def sandbox_check(agentbench: Any) -> dict[str, str]:
    done = agentbench("doctor", "--json")
    (check,) = (check for check in json.loads(done.out) if check["name"] == "sandbox docker")
    return dict(check)


def test_a_remote_daemon(make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F09: an engine reached through TCP cannot mount workspaces, so it is refused before anything is recorded."""
    with forwarded(os.environ.get("DOCKER_HOST") or DEFAULT_HOST) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        make_task()
        words = (f"the Docker engine at {host} is remote", "unset DOCKER_HOST")
        check_refused(agentbench("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "docker"), *words)
        check = sandbox_check(agentbench)
    assert check["status"] == "warning"
    assert words[0] in check["detail"]
    assert words[1] in check["remedy"]


@contextlib.contextmanager
def forwarded(local: str) -> Iterator[str]:
    """Forward a TCP port to a daemon's socket."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(local.removeprefix("unix://"))
            there = threading.Thread(target=pump, args=(client, daemon))
            there.start()
            pump(daemon, client)
            there.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                thread = threading.Thread(target=serve, args=(client,))
                threads.append(thread)
                thread.start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (
            "agentbench/py-runner:0.0.0",
            ("image 'agentbench/py-runner:0.0.0' was not found", "agentbench docker build"),
        ),
        (
            "agentbench-test/absent:1",
            ("image 'agentbench-test/absent:1' was not found", "docker pull agentbench-test"),
        ),
    ],
)
def test_an_absent_image(make_task: Any, agentbench: Any, image: str, words: tuple[str, ...]) -> None:
    """F09: it is detected before anything is recorded, whether we build the image or it must be pulled."""
    make_task(environment={"docker_image": image})
    command = ("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "docker", "--set", "sandbox.pull=never")
    check_refused(agentbench(*command), *words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("runtime=ab-absent", ("does not have the runtime 'ab-absent'", "runc", "sandbox.runtime")),
        ("ca_bundle=/nowhere.crt", ("file '/nowhere.crt' does not exist", "sandbox.ca_bundle")),
        ("setup_network=ab-absent", ("docker network 'ab-absent' does not exist", "sandbox.setup_network")),
    ],
)
def test_settings_that_the_engine_cannot_meet(
    make_task: Any, agentbench: Any, setting: str, words: tuple[str, ...]
) -> None:
    """F09, F33: options that name missing things are detected before anything is recorded."""
    make_task()
    command = ("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "docker", "--set", f"sandbox.{setting}")
    check_refused(agentbench(*command), *words)
