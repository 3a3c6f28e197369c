"""What the tests of the sandbox ``docker`` share. Engine, containers and processes here are real."""

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
"""Seconds that suffice for whatever is not meant to run out of time."""


@attrs.frozen(eq=False)
class Started:
    """A sandbox that runs, its workspace on the host, and its processes as the host sees them."""

    sandbox: DockerSandbox
    workspace: Path

    SOON: ClassVar[float] = SOON

    @property
    def id(self) -> str:
        """The id of its container."""
        return self.sandbox.container.id

    def run(self, command: str | Sequence[str], seconds: float = SOON, *, until: str = "", **more: Any) -> ExecResult:
        """Run a command for so long, or until it has made this file."""
        deadline = over_once(self.workspace / until) if until else Deadline(seconds)
        return self.sandbox.exec(command, deadline=deadline, **more)

    def ask(self, command: str | Sequence[str]) -> str:
        """What a command prints that must succeed, without spaces around it."""
        result = self.run(command)
        assert result.ok, f"{command!r} should have succeeded: {result}"
        return result.stdout.text.strip()

    def processes(self, word: str = "") -> list[str]:
        """Command lines of what runs in it, its process 1 included; of those that contain ``word``."""
        return [line for line in processes_of(self.id).values() if word in line]

    def wait_for(self, word: str) -> None:
        """Wait until a process has ``word`` in its command line."""
        self._until(lambda: bool(self.processes(word)), f"no process with {word!r}")

    def strangers(self) -> list[str]:
        """What runs in it beside our own: process 1 and its supervisors, or what waits where there is no Python.

        The dead that nobody buried are strangers, too. A ``docker exec`` that the engine is just starting is not: it is
        ``runc init`` for a moment, and waited for, until it is the supervisor of the next command.
        """
        running: list[str] = []

        def is_started() -> bool:
            running[:] = self.processes()
            return "runc init " not in running

        self._until(is_started, "the engine does not start a process")
        return [line for line in running if "-I -S" not in line and "sleep 3600" not in line]

    def wait_until_alone(self) -> None:
        """Wait until those that ended by themselves are buried, and all supervisors but one, who is kept, have gone."""
        self._until(lambda: not self.strangers() and len(self.processes()) <= 2, "something still runs")

    def _until(self, condition: Callable[[], bool], problem: str) -> None:
        give_up_at = time.monotonic() + SOON
        while not condition():
            assert time.monotonic() < give_up_at, f"{problem}: {self.processes()}"
            time.sleep(0.02)


@attrs.frozen
class Stage:
    """A provider, an environment of its own, and what is started of it."""

    provider: DockerProvider
    environment: DockerEnvironment
    directory: Path
    _started: list[Path] = attrs.field(factory=list)

    def fork(self) -> Path:
        """A private copy of the prepared tree."""
        target = self.directory / f"workspace-{len(self._started)}"
        self._started.append(target)
        fork(self.environment.workspace, target)
        return target

    @contextlib.contextmanager
    def start(self, *, hosted: bool = True, read_only: bool = False) -> Iterator[Started]:
        """Start it. Not ``hosted``: as images without Python are, where commands go through ``docker exec``."""
        workspace = self.fork()
        sandbox = self._environment(hosted).start(
            workspace, read_only=read_only, network=False, deadline=Deadline(SOON)
        )
        try:
            yield Started(sandbox, workspace)
        finally:
            sandbox.close()

    def once(self, command: str, *, until: str = "", hosted: bool = True) -> ExecResult:
        """Run a command in a start of its own, to its end or until it has made this file."""
        workspace = self.fork()
        deadline = over_once(workspace / until) if until else Deadline(SOON)
        return self._environment(hosted).run_once(Command(command), workspace, deadline)

    def containers(self) -> list[str]:
        """Ids of the containers that this provider has, those that do not run included."""
        return asked("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={OWNER}={self._place}")

    def processes_of(self, container: str) -> list[str]:
        """Command lines of what runs in one of them."""
        return list(processes_of(container).values())

    @property
    def _place(self) -> Path:
        return self.environment.scratch.path

    def _environment(self, hosted: bool) -> DockerEnvironment:
        image = attrs.evolve(self.environment.image, hosted=hosted)
        return attrs.evolve(self.environment, image=image)


def over_once(sign: Path) -> Deadline:
    """A deadline that is over once this file exists, and not before: a command may be slow to come so far."""
    return Deadline(SOON, clock=lambda: SOON if sign.exists() else 0.0)


def asked(*arguments: str) -> list[str]:
    """The lines that ``docker`` prints."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def processes_of(container: str) -> dict[int, str]:
    """Command lines of what the host sees running in a container; the dead that nobody collected count, too."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if container in (place / "cgroup").read_text():
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has gone meanwhile
    return found


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
    """Temporary files and the cache of one module only; afterwards the engine has nothing of it, nor the disk."""
    directory = tmp_path_factory.mktemp("docker")
    temporary = directory / "temporary"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("XDG_CACHE_HOME", str(directory / "cache"))
        yield directory
    assert _labelled_below(temporary) == [], "a provider must leave nothing to the engine"
    assert list(temporary.iterdir()) == [], "a provider must leave nothing behind"


def _labelled_below(temporary: Path) -> list[str]:
    """What the engine has of providers whose scratch directories lie there."""
    labels = f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}} {{{{.Label "{KEEPER}"}}}}'
    shown = ["--format", labels, "--filter", f"label={USER}"]
    lines = asked("ps", "--all", *shown) + asked("network", "ls", *shown)
    return [line for line in lines if str(temporary) in line]


@pytest.fixture(scope="module")
def options() -> DockerOptions:
    """What is chosen for the provider of a module."""
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
    """Prepares an environment, and gives a stage over it."""

    def prepare(*commands: str, log: RecordingLog | None = None, **settings: Any) -> Stage:
        spec = spec_of(*commands, **settings)
        environment = provider.prepare(spec, pristine, log or RecordingLog(), Deadline(4 * SOON))
        return Stage(provider, environment, Path(tempfile.mkdtemp(dir=place)))

    return prepare


@pytest.fixture(scope="module")
def stage(make: Callable[..., Stage]) -> Stage:
    """An environment without a set-up, and little memory: most tests need no more."""
    return make(mem_limit_mb=256, pids_limit=128)


@pytest.fixture
def started(stage: Stage) -> Iterator[Started]:
    """A sandbox of one test."""
    with stage.start() as started:
        yield started
