"""Many sandboxes at once, and cleanup: closed and dead providers leave nothing outside the cache."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Deadline, EnvironmentSpec, SandboxError, SetupError, dump
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker import storage
from agentbench_docker.cache import Cache
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_docker.sandbox import DockerSandbox
from agentbench_testing import RecordingLog

pytestmark = pytest.mark.docker

SOON = 60.0
COUNTING = 'echo made >> "$PIP_CACHE_DIR/count"; sleep 1'
"""A setup that leaves a trace in pip's cache on the host."""


@attrs.frozen
class Directories:
    """Temporary files and cache of this module."""

    directory: Path

    @property
    def temporary(self) -> Path:
        return self.directory / "temporary"

    def tree(self) -> Path:
        path = self.directory / f"tree-{secrets.token_hex(6)}"
        path.mkdir()
        return path

    def prepare(self, provider: DockerProvider, spec: EnvironmentSpec) -> DockerEnvironment:
        return provider.prepare(spec, self.tree(), RecordingLog(), Deadline(SOON))

    def start(self, environment: DockerEnvironment) -> DockerSandbox:
        return environment.start(self.tree(), read_only=False, network=False, deadline=Deadline(SOON))

    def owned(self, kind: str) -> list[str]:
        """Return the ids of containers, networks or images made by providers of this module."""
        if kind == "image":
            return self._images()
        listing = {"container": ["ps", "--all"], "network": ["network", "ls"]}
        shown = ["--filter", "label=agentbench.owner", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
        pairs = [line.split(" ", 1) for line in asked(*listing[kind], *shown).splitlines()]
        return [found for found, owner in pairs if owner.startswith(f"{self.temporary}/")]

    def _images(self) -> list[str]:
        marks = tuple(f"-{Cache(root).mark}" for root in self.directory.glob("*/agentbench/docker"))
        listing = asked("image", "ls", "--no-trunc", "--format", "{{.Tag}} {{.ID}}", "agentbench/environment")
        pairs = [line.split() for line in listing.splitlines()]
        return [found for tag, found in pairs if tag.endswith(marks)]


def asked(*arguments: str) -> str:
    """Return the output of ``docker``."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def spec_of(*commands: str, **settings: Any) -> EnvironmentSpec:
    chosen = {"network_policy": "none", "mem_limit_mb": 128, **settings}
    return EnvironmentSpec(
        commit="0" * 40, settings=EnvironmentSettings(**chosen), setup=Setup(commands=commands, capture=())
    )


@pytest.fixture(scope="module")
def dirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    """The directories of this module; checks at the end that neither containers nor mounts are left."""
    dirs = Directories(tmp_path_factory.mktemp("leftovers"))
    dirs.temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(dirs.temporary))
        patch.setenv("XDG_CACHE_HOME", str(dirs.directory / "cache"))
        yield dirs
        for image in dirs.owned("image"):  # cached for later runs, which will not see this cache
            asked("image", "rm", "--force", image)
    assert [dirs.owned(kind) for kind in ("container", "network", "image")] == [[], [], []]
    assert list(dirs.temporary.iterdir()) == []
    assert str(dirs.directory) not in Path("/proc/mounts").read_text()


@pytest.fixture
def cache(dirs: Directories, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for a test."""
    place = dirs.directory / f"cache-{secrets.token_hex(6)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place / "agentbench/docker"


@contextlib.contextmanager
def provider(**options: Any) -> Iterator[DockerProvider]:
    with contextlib.closing(DockerProvider(DockerOptions(**options))) as made:
        yield made


@pytest.fixture(scope="module")
def environment(dirs: Directories) -> Iterator[DockerEnvironment]:
    """An environment without setup, shared by all tests that only start sandboxes."""
    with provider() as made:
        yield dirs.prepare(made, spec_of())


# --- many at once ------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_many_sandboxes_at_once(dirs: Directories, environment: DockerEnvironment) -> None:
    """F23: 4 threads open 8 sandboxes at once; each starts, runs its own command, and is removed."""

    def start(number: int) -> DockerSandbox:
        sandbox = dirs.start(environment)
        said = sandbox.exec(f"echo {number} > mine; cat mine", deadline=Deadline(SOON))
        assert said.stdout.text == f"{number}\n", said
        return sandbox

    with ThreadPoolExecutor(4) as pool:
        sandboxes = list(pool.map(start, range(8)))
        assert len(dirs.owned("container")) == 8
        list(pool.map(DockerSandbox.close, sandboxes))
    assert dirs.owned("container") == []


@pytest.mark.release
def test_load_of_other_sandboxes_causes_no_timeout(dirs: Directories, environment: DockerEnvironment) -> None:
    """F24: a half-second command does not reach a 20-second deadline while other sandboxes use every CPU."""
    busy = "(while :; do :; done) >/dev/null 2>&1 & " * (os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        sandboxes = [stack.enter_context(contextlib.closing(dirs.start(environment))) for _ in range(3)]
        for sandbox in sandboxes[1:]:
            assert sandbox.exec(busy, deadline=Deadline(SOON)).ok
        for _ in range(2):
            result = sandboxes[0].exec("sleep 0.5; echo done", deadline=Deadline(20))
            assert (result.exit_code, result.timed_out, result.stdout.text) == (0, False, "done\n"), result
            assert result.duration_sec >= 0.5
    assert dirs.owned("container") == []


# --- the cache ---------------------------------------------------------------------------------------------------

PREPARES = """
import json, sys
from pathlib import Path
from agentbench_core import Command, Deadline, EnvironmentSpec, load
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider

class Log:
    def started(self, command): pass
    def finished(self, command, result): pass
    def reused(self, command, result): pass

provider = DockerProvider(DockerOptions())
spec = load(json.loads(sys.argv[1]), EnvironmentSpec, where="the test")
print("ready", flush=True)
sys.stdin.readline()
environment = provider.prepare(spec, Path(sys.argv[2]), Log(), Deadline(60))
result = environment.run_once(Command("ls"), Path(sys.argv[3]), Deadline(60))
print(json.dumps([environment.digest, environment.facts["cache"].partition(",")[0], result.exit_code]), flush=True)
provider.close()
"""


@pytest.mark.release
def test_two_processes_prepare_an_environment_once(dirs: Directories, cache: Path) -> None:
    """F14: setup runs once if two processes prepare the same environment; the second waits for the first."""
    words = [sys.executable, "-c", PREPARES, json.dumps(dump(spec_of(COUNTING)))]
    own = os.environ | {"TMPDIR": str(dirs.temporary)}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*words, str(dirs.tree()), str(dirs.tree())],
                    env=own,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = sorted(json.loads(process.communicate(timeout=SOON)[0]) for process in processes)
    digest = said[0][0]
    assert said == [[digest, "hit", 0], [digest, "miss", 0]]
    assert (cache / "pip/count").read_text() == "made\n"


@pytest.mark.long
def test_failed_setup_leaves_nothing(dirs: Directories, cache: Path) -> None:
    """A failed setup leaves no image, cache entry, container or network; the next one starts over."""
    images = set(dirs.owned("image"))
    spec = spec_of('echo made >> "$PIP_CACHE_DIR/count"', "exit 3", network_policy="setup_only")
    with provider() as made:
        for _ in range(2):
            with pytest.raises(SetupError, match="exit"):
                dirs.prepare(made, spec)
            assert Cache().entries() == []
            assert [path for path in cache.glob("environments/*/*") if path.name != ".lock"] == []
            assert set(dirs.owned("image")) == images
    assert dirs.owned("container") == []
    assert dirs.owned("network") == []
    assert (cache / "pip/count").read_text() == "made\n" * 2


# --- left by dead providers --------------------------------------------------------------------------------------


def test_images_without_an_entry_are_swept_and_those_with_one_stay(dirs: Directories, cache: Path) -> None:
    """F14: an image whose cache entry is missing, as after a crash, is swept; one with an entry stays."""
    with provider() as made:
        image = dirs.prepare(made, spec_of("true")).facts["image_id"]
    assert dirs.owned("container") == []
    with provider() as made:
        made.sweep()
        assert image in dirs.owned("image")
        (entry,) = cache.glob("environments/*/entry.json")
        entry.unlink()
        made.sweep()
        assert image not in dirs.owned("image")


def test_sweep_tolerates_concurrent_image_removal(
    dirs: Directories, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: a sweep tolerates that another run removes an image after it was listed."""
    image = storage.image_name("a" * 32, Cache())
    asked("tag", "agentbench/py-runner:0.1.0", image)
    listing = storage._names

    def list_and_remove(client: Any) -> Any:
        found = listing(client)
        assert image in found
        asked("image", "rm", image)
        return found

    monkeypatch.setattr(storage, "_names", list_and_remove)
    with provider() as made:
        made.sweep()
    assert asked("image", "ls", "--quiet", image) == ""


@pytest.mark.long
def test_sweep_keeps_images_that_another_provider_uses(
    dirs: Directories, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: a sweep with another cache spares an image that a live provider uses."""
    with provider() as made:
        dirs.prepare(made, spec_of("true"))
    with provider() as living:
        environment = dirs.prepare(living, spec_of("true"))
        assert environment.facts["cache"].startswith("hit")
        monkeypatch.setenv("XDG_CACHE_HOME", str(dirs.directory / "another"))
        with provider() as other:
            other.sweep()
        with contextlib.closing(dirs.start(environment)) as sandbox:
            assert sandbox.exec("true", deadline=Deadline(SOON)).ok


@pytest.mark.long
def test_sweep_removes_only_resources_of_dead_owners(dirs: Directories, cache: Path) -> None:
    """F14: containers and networks of owners without a lease are removed; those of lease holders are not."""
    name = f"agentbench-{secrets.token_hex(6)}"
    make: dict[str, Callable[[str], str]] = {
        "container": lambda owner: asked("create", *_labels(owner), "agentbench/py-runner:0.1.0", "true"),
        "network": lambda owner: asked("network", "create", *_labels(owner), f"{name}-{Path(owner).name[-4:]}"),
    }
    with provider() as living:
        owner = str(dirs.prepare(living, spec_of()).scratch.path)
        for one in make.values():
            one(str(dirs.temporary / "agentbench-docker-dead"))
        alive = [one(owner)[:12] for one in make.values()]
        with provider() as made:
            made.sweep()
        assert [each for kind in make for each in dirs.owned(kind)] == alive
    assert [dirs.owned(kind) for kind in make] == [[], []]


@pytest.mark.release
@pytest.mark.mounts
def test_sweep_keeps_resources_of_owners_with_hidden_files(dirs: Directories, cache: Path) -> None:
    """F14: two jobs share an engine, each with its own /tmp, and one cache or two.

    A missing path does not mean that its owner is dead: containers and networks stay while the engine has the lease.
    """
    prune = [str(Path(sys.executable).with_name("agentbench")), "docker", "prune", "--all"]
    hide = 'mount -t tmpfs tmpfs "$1" && mkdir -p "$2" && export TMPDIR="$2" && shift 2 && exec "$@"'
    with provider() as living:
        environment = dirs.prepare(living, spec_of("true", network_policy="setup_only"))
        with contextlib.closing(dirs.start(environment)) as sandbox:
            before = [dirs.owned(kind) for kind in ("container", "network", "image")]
            for hidden in (dirs.temporary, dirs.directory):
                places = [str(hidden), str(dirs.temporary)]
                subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", *places, *prune], check=True)
                assert [dirs.owned(kind) for kind in ("container", "network", "image")] == before
            assert environment.workspace.is_dir()
            assert sandbox.exec("true", deadline=Deadline(SOON)).ok


def _labels(owner: str) -> list[str]:
    return ["--label", f"agentbench.owner={owner}", "--label", f"agentbench.uid={os.geteuid()}"]


@pytest.mark.long
def test_closed_provider_leaves_nothing(dirs: Directories, cache: Path) -> None:
    """F14: closing a provider removes its open sandboxes, even in use, and nothing starts afterwards."""
    with provider() as made:
        environment = dirs.prepare(made, spec_of("true", network_policy="setup_only"))
        sandboxes = [dirs.start(environment) for _ in range(2)]
        assert len(dirs.owned("network")) == 1
        with ThreadPoolExecutor(1) as pool:
            cut = pool.submit(sandboxes[0].exec, "echo begun > begun; sleep 63", deadline=Deadline(SOON))
            end = time.monotonic() + SOON
            while not list(dirs.directory.glob("tree-*/begun")):
                assert time.monotonic() < end
                time.sleep(0.05)
            made.close()
            with pytest.raises(SandboxError):
                cut.result(SOON)
        with pytest.raises(SandboxError):
            dirs.start(environment)
        with pytest.raises(SandboxError):
            sandboxes[1].exec("true", deadline=Deadline(SOON))
    assert dirs.owned("container") == []
    assert dirs.owned("network") == []
