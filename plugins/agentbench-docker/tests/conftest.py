"""Shared fixtures for the ``docker`` sandbox; engine, containers and processes are real."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from agentbench_core import Command, Deadline, EnvironmentSpec, ExecResult, fork
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.owner import KEEPER, OWNER, USER
from agentbench_docker.provider import DockerProvider
from agentbench_docker.sandbox import DockerSandbox
from agentbench_testing import RecordingLog

SOON = 60.0
"""Deadline in seconds for commands that should not time out."""


@attrs.frozen(eq=False)
class Started:
    """A running sandbox, its workspace on the host, and its processes as seen from the host."""

    sandbox: DockerSandbox
    workspace: Path

    SOON: ClassVar[float] = SOON

    @property
    def id(self) -> str:
        """The container id."""
        return self.sandbox.container.id

    def run(self, command: str | Sequence[str], seconds: float = SOON, *, until: str = "", **more: Any) -> ExecResult:
        """Run a command until a deadline, or until it has created the file ``until``."""
        deadline = over_once(self.workspace / until) if until else Deadline(seconds)
        return self.sandbox.exec(command, deadline=deadline, **more)

    def ask(self, command: str | Sequence[str]) -> str:
        """Run a command that must succeed and return its output, stripped."""
        result = self.run(command)
        assert result.ok, f"{command!r} should have succeeded: {result}"
        return result.stdout.text.strip()

    def processes(self, word: str = "") -> list[str]:
        """Return the container's command lines that contain ``word``, process 1 included."""
        return [line for line in processes_of(self.id).values() if word in line]

    def wait_for(self, word: str) -> None:
        """Wait until a command line contains ``word``."""
        self._until(lambda: bool(self.processes(word)), f"no process with {word!r}")

    def strangers(self) -> list[str]:
        """Return all processes but our own: process 1, supervisors, and the sleep that replaces them without Python.

        Zombies count, too. A ``docker exec`` that the engine is just starting does not: we wait while it is
        ``runc init``, until it becomes the supervisor of the next command.
        """
        running: list[str] = []

        def is_started() -> bool:
            running[:] = self.processes()
            return "runc init " not in running

        self._until(is_started, "the engine does not start a process")
        return [line for line in running if "-I -S" not in line and "sleep 3600" not in line]

    def wait_until_alone(self) -> None:
        """Wait until ended processes are reaped and at most one supervisor, which is kept, is left."""
        self._until(lambda: not self.strangers() and len(self.processes()) <= 2, "something still runs")

    def _until(self, condition: Callable[[], bool], problem: str) -> None:
        give_up_at = time.monotonic() + SOON
        while not condition():
            assert time.monotonic() < give_up_at, f"{problem}: {self.processes()}"
            time.sleep(0.02)


@attrs.frozen
class Stage:
    """A provider with one environment, and what is started from it."""

    provider: DockerProvider
    environment: DockerEnvironment
    directory: Path
    _started: list[Path] = attrs.field(factory=list)

    def fork(self) -> Path:
        """Return a private copy of the prepared tree."""
        target = self.directory / f"workspace-{len(self._started)}"
        self._started.append(target)
        fork(self.environment.workspace, target)
        return target

    @contextlib.contextmanager
    def start(self, *, hosted: bool = True, read_only: bool = False) -> Iterator[Started]:
        """Start a sandbox; if not ``hosted``, commands go through ``docker exec`` as in images without Python."""
        workspace = self.fork()
        sandbox = self._environment(hosted).start(
            workspace, read_only=read_only, network=False, deadline=Deadline(SOON)
        )
        try:
            yield Started(sandbox, workspace)
        finally:
            sandbox.close()

    def once(self, command: str, *, until: str = "", hosted: bool = True) -> ExecResult:
        """Run a one-off command to its end, or until it has created the file ``until``."""
        workspace = self.fork()
        deadline = over_once(workspace / until) if until else Deadline(SOON)
        return self._environment(hosted).run_once(Command(command), workspace, deadline)

    def containers(self) -> list[str]:
        """Return the ids of this provider's containers, stopped ones included."""
        return asked("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={OWNER}={self._place}")

    @property
    def _place(self) -> Path:
        return self.environment.scratch.path

    def _environment(self, hosted: bool) -> DockerEnvironment:
        image = attrs.evolve(self.environment.image, hosted=hosted)
        return attrs.evolve(self.environment, image=image)


def over_once(sign: Path) -> Deadline:
    """A deadline that expires when this file exists, however long the command takes to create it."""
    assert not sign.exists(), "the deadline would never expire"
    return Deadline(SOON, clock=lambda: SOON if sign.exists() else 0.0)


def asked(*arguments: str) -> list[str]:
    """Return the output lines of ``docker``."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def processes_of(container: str) -> dict[int, str]:
    """Return the command lines of a container's processes as seen from the host, zombies included."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if container in (place / "cgroup").read_text():
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended in the meantime
    return found


@pytest.fixture(name="over_once", scope="session")
def over_once_fixture() -> Callable[[Path], Deadline]:
    return over_once


@pytest.fixture(name="spec_of", scope="session")
def spec_of_fixture() -> Callable[..., EnvironmentSpec]:
    return spec_of


def spec_of(*commands: str, capture: tuple[str, ...] = (), **settings: Any) -> EnvironmentSpec:
    """A spec for the image that ``agentbench docker build`` makes."""
    return EnvironmentSpec(
        commit="0" * 40,
        settings=EnvironmentSettings(**{"network_policy": "none", **settings}),
        setup=Setup(commands=commands, capture=capture),
    )


@pytest.fixture
def log() -> RecordingLog:
    return RecordingLog()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Temporary files and cache of one module; checks afterwards that nothing is left in the engine or on disk."""
    directory = tmp_path_factory.mktemp("docker")
    temporary = directory / "temporary"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("XDG_CACHE_HOME", str(directory / "cache"))
        yield directory
    assert _labelled_below(temporary) == [], "a provider must leave nothing in the engine"
    assert list(temporary.iterdir()) == [], "a provider must leave no temporary files"


def _labelled_below(temporary: Path) -> list[str]:
    """Return containers and networks of providers whose scratch directories are in ``temporary``."""
    labels = f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}} {{{{.Label "{KEEPER}"}}}}'
    shown = ["--format", labels, "--filter", f"label={USER}"]
    lines = asked("ps", "--all", *shown) + asked("network", "ls", *shown)
    return [line for line in lines if str(temporary) in line]


@pytest.fixture(scope="module")
def options() -> DockerOptions:
    """The provider's options; modules override this."""
    return DockerOptions()


@pytest.fixture(scope="module")
def provider(place: Path, options: DockerOptions) -> Iterator[DockerProvider]:
    provider = DockerProvider(options)
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def pristine(place: Path) -> Path:
    tree = place / "pristine"
    (tree / "package").mkdir(parents=True)
    (tree / "package" / "module.py").write_text("ANSWER = 41\n")
    return tree


@pytest.fixture(scope="module")
def make(provider: DockerProvider, pristine: Path, place: Path) -> Callable[..., Stage]:
    """Prepare an environment and return its stage."""

    def prepare(*commands: str, log: RecordingLog | None = None, **settings: Any) -> Stage:
        spec = spec_of(*commands, **settings)
        environment = provider.prepare(spec, pristine, log or RecordingLog(), Deadline(4 * SOON))
        return Stage(provider, environment, Path(tempfile.mkdtemp(dir=place)))

    return prepare


@pytest.fixture(scope="module")
def stage(make: Callable[..., Stage]) -> Stage:
    """An environment without setup and with little memory, enough for most tests."""
    return make(mem_limit_mb=256, pids_limit=128)


@pytest.fixture
def started(stage: Stage) -> Iterator[Started]:
    """A running sandbox of its own for a test."""
    with stage.start() as started:
        yield started
