"""Agents that are programs: mounted directories, and an address that the host accepts on, both ways."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from agentbench_core import Command, Deadline, EnvironmentSpec, SandboxError
from agentbench_docker import handover
from agentbench_docker.endpoints import URL, Addresses
from agentbench_docker.inside.multiplexing import MOST_CONNECTIONS
from agentbench_docker.options import DockerOptions
from agentbench_docker.program_sandbox import DockerProgramSandbox
from agentbench_docker.provider import DockerProvider
from agentbench_testing import RecordingLog

pytestmark = pytest.mark.docker

Way = Literal["handed_over", "carried"]
WAYS: tuple[Way, ...] = ("handed_over", "carried")
SOON = 60.0
ASK = "import socket; s = socket.create_connection(('127.0.0.1', 4100), 30); s.sendall(b'?'); print(s.recv(9).decode())"
HOLD = """
import socket, sys
held = [socket.create_connection(('127.0.0.1', 4100), 30) for _ in range(int(sys.argv[1]))]
print(len(held))
"""


@attrs.frozen
class Opened:
    """A sandbox with an open address, which answers each connection with ``!`` and what it has received."""

    sandbox: DockerProgramSandbox
    environment: Any
    listener: socket.socket

    def run(self, command: str | list[str], seconds: float = SOON) -> Any:
        return self.sandbox.exec(command, deadline=Deadline(seconds))

    def ask(self, command: str | list[str]) -> str:
        result = self.run(command)
        assert result.ok, result
        text: str = result.stdout.text
        return text.strip()

    def answers(self) -> bool:
        """Whether a connection from inside is answered by the host."""
        return bool(self.run(["python3", "-c", ASK]).stdout.text.strip() == "!?")

    def containers(self) -> list[str]:
        """The sandbox's container, and the holder of its network if there is one."""
        own = self.sandbox.container.id
        (network,) = _docker("inspect", "--format", "{{.HostConfig.NetworkMode}}", own)
        holder = network.partition("container:")[2]
        return [own, holder] if holder else [own]


Open = Callable[..., contextlib.AbstractContextManager[Opened]]


@pytest.fixture(scope="module")
def program(place: Path) -> Path:
    directory = place / "program"
    directory.mkdir()
    (directory / "run").write_text("#!/bin/sh\necho it runs\n")
    (directory / "run").chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def opener(
    place: Path, pristine: Path, program: Path, spec_of: Callable[..., EnvironmentSpec]
) -> Iterator[Callable[[Way | Literal["auto"]], Open]]:
    """Opens sandboxes in one way; the provider and its environment are shared by the tests of this module."""
    with contextlib.closing(DockerProvider(DockerOptions())) as provider:
        spec = spec_of(mem_limit_mb=256, pids_limit=300)
        environment = provider.prepare(spec, pristine, RecordingLog(), Deadline(4 * SOON))

        @functools.cache
        def opener_of(way: Way | Literal["auto"]) -> Open:
            return functools.partial(_open, _with_fresh_choice(environment, way), program, place)

        yield opener_of


@pytest.fixture(scope="module")
def opened_in(opener: Callable[[Way], Open]) -> Iterator[Callable[[Way], Opened]]:
    """A sandbox for each way, shared by the tests that leave it and its address as they are."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda way: stack.enter_context(opener(way)()))


@pytest.fixture(params=WAYS)
def open_sandbox(request: pytest.FixtureRequest, opener: Callable[[Way], Open]) -> Open:
    """Opens sandboxes in one of the two ways."""
    return opener(request.param)


@pytest.fixture(params=WAYS)
def opened(request: pytest.FixtureRequest, opened_in: Callable[[Way], Opened]) -> Opened:
    """The shared sandbox of one of the two ways."""
    return opened_in(request.param)


@contextlib.contextmanager
def _open(environment: Any, program: Path, place: Path, *, hosted: bool = True) -> Iterator[Opened]:
    image = attrs.evolve(environment.image, hosted=hosted)
    environment = attrs.evolve(environment, image=image)
    workspace = Path(tempfile.mkdtemp(dir=place))
    sandbox = environment.start_with_programs(
        workspace, programs={"mine-1.0": program}, read_only=False, network=False, deadline=Deadline(SOON)
    )
    try:
        endpoint = sandbox.listen()
        assert endpoint.url == URL
        with _answering(endpoint.listener):
            yield Opened(sandbox, environment, endpoint.listener)
    finally:
        sandbox.close()


@contextlib.contextmanager
def _answering(listener: socket.socket) -> Iterator[None]:
    """Answer connections in threads until the end of the block, which closes the listener."""
    over = threading.Event()
    connections: list[socket.socket] = []
    listener.settimeout(0.05)

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.settimeout(SOON)
            connection.sendall(b"!" + connection.recv(9))

    def serve() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connections.append(listener.accept()[0])
                threading.Thread(target=answer, args=(connections[-1],), daemon=True).start()

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield
    finally:
        over.set()
        server.join()
        listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _docker(*arguments: str) -> list[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_container_has_only_loopback(opened: Opened) -> None:
    """E01: The container has no interface but ``lo`` and no route, as without an address."""
    assert opened.answers()
    assert opened.ask("tail -n +2 /proc/net/route; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '") == "lo"
    connect = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
    assert "unreachable" in opened.run(["python3", "-c", connect]).stderr.text
    for container in opened.containers():
        shown = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}"
        assert _docker("inspect", "--format", shown, container) in ([""], ["none"])


def test_mounts(opened: Opened, program: Path) -> None:
    """E01, E06: Programs are mounted read-only; the way by which the address was opened is not visible inside."""
    assert opened.sandbox.programs == {"mine-1.0": "/opt/agent/mine-1.0"}
    assert opened.ask("/opt/agent/mine-1.0/run") == "it runs"
    shown = '{{range .Mounts}}{{.Destination}} {{.RW}}{{"\\n"}}{{end}}'
    mounts = [line for line in _docker("inspect", "--format", shown, opened.sandbox.container.id) if line]
    inside = "/agentbench/lib/agentbench_docker/inside"
    expected = ["/etc/group", "/etc/passwd", "/opt/agent/mine-1.0", inside]
    assert sorted(mounts) == sorted(["/workspace true", *(f"{each} false" for each in expected)])
    assert opened.ask("find / -xdev -type s 2>/dev/null; true") == ""


@pytest.mark.long
def test_a_restarted_container(open_sandbox: Open) -> None:
    """E04: The address is there again after the container was restarted, and the caller's socket is the same.

    Also after the agent has filled the memory so that PID 1 cannot start a process. With the sandbox, its containers
    are removed.
    """
    with open_sandbox() as opened:
        assert opened.answers()
        opened.sandbox.kill_for_disk("")
        assert opened.answers()
        assert opened.run("true").limits_hit == ()
        opened.run("dd if=/dev/zero of=/dev/shm/x bs=1M count=300; dd if=/dev/zero of=/tmp/x bs=1M count=300")
        for _ in range(200):  # the number of times that the kernel kills only the command, not PID 1, varies
            if b"restarted" in opened.run(["python3", "-c", "x = bytearray(1 << 28)"]).stderr.data:
                break
        assert opened.answers()
        containers = opened.containers()
        opened.sandbox.close()
        left = _docker("ps", "--all", "--quiet", "--no-trunc")
        assert not set(left) & set(containers)
        opened.sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            opened.sandbox.listen()


def test_images_without_python(opener: Callable[[Way], Open]) -> None:
    """There, the container is restarted at each deadline; the namespace of the holder stays."""
    with opener("handed_over")(hosted=False) as opened:
        assert opened.answers()
        assert opened.run("sleep 60", seconds=0.3).timed_out
        assert opened.answers()


def test_handover_adds_no_process_to_the_sandbox(opened_in: Callable[[Way], Opened]) -> None:
    """E01: After the hand-over, the sandbox has only the processes that all have, and the holder is a shell."""
    opened = opened_in("handed_over")
    assert opened.answers()
    own, holder = opened.containers()
    for container, program in ((own, "python3"), (holder, "sh")):
        names = {line.split()[1] for line in _docker("top", container, "-eo", "pid,args")[1:]}
        assert {Path(name).name for name in names} == {program}


def test_commands_cannot_kill_or_trace_the_relay(opened_in: Callable[[Way], Opened]) -> None:
    """E04: Commands cannot kill or trace the relay, which runs as another user. It is restarted if it ends.

    It may have been killed because the sandbox had used up its memory.
    """
    opened = opened_in("carried")
    find = "for p in /proc/[0-9]*; do [ $(stat -c %u $p) = 65534 ] && echo ${p#/proc/}; done"
    relays = opened.ask(f"{find}; true").split()
    assert len(relays) == 1
    for attempt in (f"kill -9 {relays[0]}", f"cat /proc/{relays[0]}/mem", f"ls /proc/{relays[0]}/fd"):
        assert not opened.run(attempt).ok
    opened.run("kill -9 -1")
    assert opened.answers()

    container = opened.sandbox.container.id
    kill = f"kill -9 {relays[0]}"
    assert subprocess.run(["docker", "exec", "--user", "65534", container, "sh", "-c", kill]).returncode == 0
    give_up_at = time.monotonic() + SOON
    while not opened.answers():
        assert time.monotonic() < give_up_at
    assert opened.ask(f"{find}; true").split() != relays


def test_very_many_connections(opened_in: Callable[[Way], Opened]) -> None:
    """E05: A limited number is carried at once; the others wait, and the address works afterwards."""
    opened = opened_in("carried")
    before = _open_files()
    result = opened.run(["python3", "-c", HOLD, str(2 * MOST_CONNECTIONS)])
    assert result.ok, result
    assert opened.answers()
    assert threading.active_count() < 2 * MOST_CONNECTIONS + 20
    # Without the limit, there would be four times as many; some are closed a moment later.
    assert _open_files() <= before + 3 * MOST_CONNECTIONS


_HARNESS = """
import sys, time
from pathlib import Path
from agentbench_core import Command, Deadline, EnvironmentSpec
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_testing import RecordingLog
spec = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(network_policy="none"), setup=Setup(capture=()))
provider = DockerProvider(DockerOptions(endpoint=sys.argv[1]))
environment = provider.prepare(spec, Path(sys.argv[2]), RecordingLog(), Deadline(60))
sandbox = environment.start_with_programs(
    Path(sys.argv[3]), programs={}, read_only=False, network=False, deadline=Deadline(60)
)
endpoint = sandbox.listen()
print(environment.scratch.path, flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_containers_of_a_killed_harness_stop_and_are_removed(opened: Opened, place: Path, pristine: Path) -> None:
    """F14: All processes in its containers end at once, and the next run removes what is left."""
    way = opened.environment.launcher.hardening.options.endpoint
    workspace = tempfile.mkdtemp(dir=place)
    command = [sys.executable, "-c", _HARNESS, way, str(pristine), workspace]
    environment = {**os.environ, "TMPDIR": str(place / "temporary")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as harness:
        assert harness.stdout is not None
        owner = harness.stdout.readline().strip()
        running = ("ps", "--quiet", "--filter", f"label=agentbench.owner={owner}")
        assert len(_docker(*running)) == {"handed_over": 2, "carried": 1}[way]
        harness.kill()
    give_up_at = time.monotonic() + SOON
    while _docker(*running):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    with contextlib.closing(DockerProvider(DockerOptions())) as next_run:
        while _docker("ps", "--all", "--quiet", "--filter", f"label=agentbench.keeper={owner}"):
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        next_run.sweep()
    assert _docker("ps", "--all", "--quiet", "--filter", f"label=agentbench.owner={owner}") == []
    assert opened.answers()


def test_a_task_with_network_access(opened: Opened, program: Path, place: Path) -> None:
    """The address works the same with ``network_policy: always``."""
    sandbox = opened.environment.start_with_programs(
        Path(tempfile.mkdtemp(dir=place)), programs={}, read_only=False, network=True, deadline=Deadline(SOON)
    )
    with contextlib.closing(sandbox):
        endpoint = sandbox.listen()
        with _answering(endpoint.listener):
            other = Opened(sandbox, opened.environment, endpoint.listener)
            assert other.answers()
            assert other.ask("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort") == "eth0\nlo"


def test_opening_twice(opened: Opened) -> None:
    """A sandbox has one address."""
    with pytest.raises(SandboxError, match="already opened"):
        opened.sandbox.listen()


def test_many_sandboxes_at_once(open_sandbox: Open) -> None:
    """E02: Each has the same address and reaches its own socket."""
    failed: list[int] = []

    def attempt(number: int) -> None:
        with open_sandbox() as opened:
            failed.extend([] if opened.answers() else [number])

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_other_containers_of_the_attempt(opened_in: Callable[[Way], Opened], place: Path) -> None:
    """E02: A command in its own container, as in baseline and scoring, has neither the address nor a program."""
    workspace = Path(tempfile.mkdtemp(dir=place))
    look = "test ! -e /opt/agent && ! python3 -c \"import socket; socket.create_connection(('127.0.0.1', 4100), 5)\""
    result = opened_in("handed_over").environment.run_once(Command(look), workspace, Deadline(SOON))
    assert result.ok, result
    assert "refused" in result.stderr.text


def test_programs_do_not_count_as_disk_usage(opened_in: Callable[[Way], Opened], program: Path) -> None:
    """The disk watch measures what the sandbox can write to, which does not include programs."""
    opened = opened_in("handed_over")
    watch = opened.environment.launcher._disk
    (watched,) = [each for each in watch._watched.values() if each.container == opened.sandbox.container.id]
    assert program not in watched.written
    assert len(watched.written) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "-x", "a,b", "x" * 200, "a\n"])
def test_names_of_programs(name: str, opener: Callable[[Way], Any], program: Path) -> None:
    """E06: Names that would change the mount or its place are refused."""
    environment = opener("handed_over").args[0]  # type: ignore[attr-defined]
    with pytest.raises(SandboxError, match="is not a valid name"):
        environment.start_with_programs(
            program, programs={name: program}, read_only=False, network=False, deadline=Deadline(SOON)
        )


def test_a_program_that_is_missing(opener: Callable[[Way], Any], program: Path) -> None:
    """The error names the directory."""
    environment = opener("handed_over").args[0]  # type: ignore[attr-defined]
    with pytest.raises(SandboxError, match=r"does not exist: .*gone"):
        environment.start_with_programs(
            program, programs={"a": program / "gone"}, read_only=False, network=False, deadline=Deadline(SOON)
        )


def test_auto_prefers_handover(opener: Callable[[Any], Open]) -> None:
    """Where descriptors can be handed over, they are."""
    with opener("auto")() as opened:
        assert opened.listener.family == socket.AF_INET
        assert opened.answers()


@pytest.mark.long
def test_auto_uses_carried_if_handover_does_not_work(
    opener: Callable[[Any], Any], program: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder cannot connect, as in gVisor or a virtual machine. This is tried once per provider."""
    environment = _with_fresh_choice(opener("auto").args[0], "auto")
    tried: list[Path] = []

    def bound_elsewhere(directory: Path) -> socket.socket:
        tried.append(directory)
        return handover.bound_socket(directory / "elsewhere", 1)

    monkeypatch.setattr(handover, "_bound", bound_elsewhere)
    for _ in range(2):
        with _open(environment, program, place) as opened:
            assert opened.listener.family == socket.AF_UNIX
            assert opened.answers()
            assert opened.containers() == [opened.sandbox.container.id]
    assert len(tried) == 1


def test_auto_uses_carried_if_the_holder_cannot_start(opener: Callable[[Any], Any], program: Path, place: Path) -> None:
    """Some runtimes cannot start the holder with its limits; here, its image has no shell."""
    environment = _with_fresh_choice(opener("auto").args[0], "auto", runner=lambda _: _empty_image())
    try:
        with _open(environment, program, place) as opened:
            assert opened.listener.family == socket.AF_UNIX
            assert opened.answers()
    finally:
        _docker("image", "rm", "--force", _empty_image())


@functools.cache
def _empty_image() -> str:
    """The id of an image without any program."""
    done = subprocess.run(["docker", "import", "-"], input=b"\0" * 10240, capture_output=True, timeout=60)
    return done.stdout.decode().strip()


def test_impossible_handover_names_the_other_option(
    opener: Callable[[Any], Any], program: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user has selected this way, the error names the other one, and nothing is left."""
    environment = opener("handed_over").args[0]
    elsewhere = functools.partial(lambda directory: handover.bound_socket(directory / "elsewhere", 1))
    monkeypatch.setattr(handover, "_bound", elsewhere)
    owned = ("ps", "-aq", "--filter", f"label=agentbench.owner={environment.scratch.path}")
    before = _docker(*owned)
    with pytest.raises(SandboxError, match="cannot hand") as caught, _open(environment, program, place):
        pass
    assert caught.value.remedy == "Set sandbox.endpoint=carried"
    assert _docker(*owned) == before


@pytest.mark.parametrize(("way", "remedy"), [("handed_over", "docker build"), ("carried", "python3")])
def test_missing_python_is_reported_with_a_remedy(
    way: Way, remedy: str, opener: Callable[[Any], Any], program: Path, place: Path
) -> None:
    """Without Python in the task's image, and without our own image, there is no address: the error says what to do."""
    environment = _with_fresh_choice(opener(way).args[0], way, runner=lambda _: None)
    with pytest.raises(SandboxError) as caught, _open(environment, program, place, hosted=False):
        pass
    assert remedy in (caught.value.remedy or "")


@pytest.mark.long
def test_long_temporary_directories(
    place: Path,
    pristine: Path,
    program: Path,
    spec_of: Callable[..., EnvironmentSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Addresses of unix sockets are limited to 108 bytes; paths of temporary directories are not."""
    long = place / "temporary" / ("long" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with contextlib.closing(DockerProvider(DockerOptions())) as provider:
        environment = provider.prepare(spec_of(), pristine, RecordingLog(), Deadline(SOON))
        for way in WAYS:
            with _open(_with_fresh_choice(environment, way), program, place) as opened:
                assert opened.answers()
    long.rmdir()


def _with_fresh_choice(environment: Any, way: str, runner: Callable[..., str | None] | None = None) -> Any:
    """The environment with a launcher that has not chosen a way yet."""
    launcher = environment.launcher
    hardening = attrs.evolve(launcher.hardening, options=attrs.evolve(launcher.hardening.options, endpoint=way))
    addresses = Addresses(launcher.client, hardening, environment.scratch, runner or launcher._addresses._runner)
    changed = type(launcher)(launcher.client, hardening, launcher._disk, launcher.lease, addresses)
    return attrs.evolve(environment, launcher=changed)


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
