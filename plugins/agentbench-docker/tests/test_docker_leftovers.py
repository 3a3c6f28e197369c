"""Many sandboxes at once, and what stays: nothing of a provider that ended, and no more than the cache knows of."""

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
from agentbench_docker.cache import Cache
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_docker.sandbox import DockerSandbox
from agentbench_testing import RecordingLog

pytestmark = pytest.mark.docker

SOON = 60.0
COUNTING = 'echo made >> "$PIP_CACHE_DIR/count"; sleep 1'
"""A set-up that leaves a trace on the host: what pip downloads is kept there."""


@attrs.frozen
class Ground:
    """Temporary files and a cache of this module."""

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
        """Ids of containers, networks or images that providers of this module made."""
        if kind == "image":
            return self._images()
        listing = {"container": ["ps", "--all"], "network": ["network", "ls"]}
        found = asked(*listing[kind], "--quiet", "--filter", "label=agentbench.owner").split()
        return [each for each in dict.fromkeys(found) if self._is_ours(kind, each)]

    def _images(self) -> list[str]:
        marks = tuple(f"-{Cache(root).mark}" for root in self.directory.glob("*/agentbench/docker"))
        listing = asked("image", "ls", "--no-trunc", "--format", "{{.Tag}} {{.ID}}", "agentbench/environment")
        pairs = [line.split() for line in listing.splitlines()]
        return [found for tag, found in pairs if tag.endswith(marks)]

    def _is_ours(self, kind: str, found: str) -> bool:
        try:
            (seen,) = json.loads(asked(kind, "inspect", found))
        except subprocess.CalledProcessError:  # somebody else's, and just removed
            return False
        labels = seen["Labels"] if kind == "network" else seen["Config"]["Labels"]
        return str(labels.get("agentbench.owner", "")).startswith(f"{self.temporary}/")


def asked(*arguments: str) -> str:
    """What ``docker`` prints."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def spec_of(*commands: str, **settings: Any) -> EnvironmentSpec:
    chosen = {"network_policy": "none", "mem_limit_mb": 128, **settings}
    return EnvironmentSpec(
        commit="0" * 40, settings=EnvironmentSettings(**chosen), setup=Setup(commands=commands, capture=())
    )


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Where this module works. In the end the engine has nothing of it, and nothing is mounted there."""
    ground = Ground(tmp_path_factory.mktemp("leftovers"))
    ground.temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(ground.temporary))
        patch.setenv("XDG_CACHE_HOME", str(ground.directory / "cache"))
        yield ground
        for image in ground.owned("image"):  # kept for later runs, which this cache will not see
            asked("image", "rm", "--force", image)
    assert [ground.owned(kind) for kind in ("container", "network", "image")] == [[], [], []]
    assert list(ground.temporary.iterdir()) == []
    assert str(ground.directory) not in Path("/proc/mounts").read_text()


@pytest.fixture
def cache(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one test."""
    place = ground.directory / f"cache-{secrets.token_hex(6)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place / "agentbench/docker"


@contextlib.contextmanager
def provider(**options: Any) -> Iterator[DockerProvider]:
    with contextlib.closing(DockerProvider(DockerOptions(**options))) as made:
        yield made


@pytest.fixture(scope="module")
def environment(ground: Ground) -> Iterator[DockerEnvironment]:
    """One without a set-up, for all tests that only start."""
    with provider() as made:
        yield ground.prepare(made, spec_of())


# --- many at once ------------------------------------------------------------------------------------------------


def test_many_sandboxes_at_once(ground: Ground, environment: DockerEnvironment) -> None:
    """F23: 24 sandboxes from 8 threads, all open at once: each starts, answers for itself, and is removed."""

    def start(number: int) -> DockerSandbox:
        sandbox = ground.start(environment)
        said = sandbox.exec(f"echo {number} > mine; cat mine", deadline=Deadline(SOON))
        assert said.stdout.text == f"{number}\n", said
        return sandbox

    with ThreadPoolExecutor(8) as pool:
        sandboxes = list(pool.map(start, range(24)))
        assert len(ground.owned("container")) == 24
        list(pool.map(DockerSandbox.close, sandboxes))
    assert ground.owned("container") == []


def test_time_under_load_is_the_commands_own(ground: Ground, environment: DockerEnvironment) -> None:
    """F24: while other sandboxes keep every processor busy, half a second is no timeout of twenty."""
    busy = "(while :; do :; done) >/dev/null 2>&1 & " * (os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        sandboxes = [stack.enter_context(contextlib.closing(ground.start(environment))) for _ in range(5)]
        for sandbox in sandboxes[1:]:
            assert sandbox.exec(busy, deadline=Deadline(SOON)).ok
        for _ in range(4):
            result = sandboxes[0].exec("sleep 0.5; echo done", deadline=Deadline(20))
            assert (result.exit_code, result.timed_out, result.stdout.text) == (0, False, "done\n"), result
            assert result.duration_sec >= 0.5
    assert ground.owned("container") == []


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

provider = DockerProvider(DockerOptions())
spec = load(json.loads(sys.argv[1]), EnvironmentSpec, where="the test")
print("ready", flush=True)
sys.stdin.readline()
environment = provider.prepare(spec, Path(sys.argv[2]), Log(), Deadline(60))
result = environment.run_once(Command("ls"), Path(sys.argv[3]), Deadline(60))
print(json.dumps([environment.digest, environment.facts["cache"].partition(",")[0], result.exit_code]), flush=True)
provider.close()
"""


def test_two_processes_that_prepare_the_same_at_once(ground: Ground, cache: Path) -> None:
    """F14 and the cache: set-up runs once, whoever is first; the other one waits, and finds what was made."""
    words = [sys.executable, "-c", PREPARES, json.dumps(dump(spec_of(COUNTING)))]
    own = os.environ | {"TMPDIR": str(ground.temporary)}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*words, str(ground.tree()), str(ground.tree())],
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


def test_a_set_up_that_fails_leaves_nothing(ground: Ground, cache: Path) -> None:
    """Neither an image nor an entry, no container, no network; the next preparation begins from the start."""
    images = set(ground.owned("image"))
    spec = spec_of('echo made >> "$PIP_CACHE_DIR/count"', "exit 3", network_policy="setup_only")
    with provider() as made:
        for _ in range(2):
            with pytest.raises(SetupError, match="exit"):
                ground.prepare(made, spec)
            assert Cache().entries() == []
            assert [path for path in cache.glob("environments/*/*") if path.name != ".lock"] == []
            assert set(ground.owned("image")) == images
    assert ground.owned("container") == []
    assert ground.owned("network") == []
    assert (cache / "pip/count").read_text() == "made\n" * 2


# --- what the dead left ------------------------------------------------------------------------------------------


def test_images_without_an_entry_are_swept_and_those_with_one_stay(ground: Ground, cache: Path) -> None:
    """F14: who dies between the commit and the entry leaves an image that nobody would ever find again."""
    with provider() as made:
        image = ground.prepare(made, spec_of("true")).facts["image_id"]
    assert ground.owned("container") == []
    with provider() as made:
        made.sweep()
        assert image in ground.owned("image")
        (entry,) = cache.glob("environments/*/entry.json")
        entry.unlink()
        made.sweep()
        assert image not in ground.owned("image")


def test_sweeping_bears_that_an_image_goes_while_it_looks(
    ground: Ground, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: two runs that begin at once sweep at once: what one has listed, the other has removed."""
    from python_on_whales.components.image.cli_wrapper import ImageCLI

    with provider() as made:
        image = ground.prepare(made, spec_of("true")).facts["image_id"]
    listing = ImageCLI.list

    def list_and_remove(self: ImageCLI, *arguments: Any, **more: Any) -> Any:
        found = listing(self, *arguments, **more)
        asked("image", "rm", image)
        return found

    monkeypatch.setattr(ImageCLI, "list", list_and_remove)
    with provider() as made:
        made.sweep()
    assert image not in ground.owned("image")


def test_sweeping_spares_the_images_that_a_living_provider_uses(
    ground: Ground, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: an environment that a dead provider prepared and a living one uses survives who keeps another cache."""
    with provider() as made:
        ground.prepare(made, spec_of("true"))
    with provider() as living:
        environment = ground.prepare(living, spec_of("true"))
        assert environment.facts["cache"].startswith("hit")
        monkeypatch.setenv("XDG_CACHE_HOME", str(ground.directory / "another"))
        with provider() as other:
            other.sweep()
        with contextlib.closing(ground.start(environment)) as sandbox:
            assert sandbox.exec("true", deadline=Deadline(SOON)).ok


def test_sweeping_removes_what_the_dead_left_and_spares_the_living(ground: Ground, cache: Path) -> None:
    """F14: containers and networks of owners without a lease go; those of an owner that holds one stay."""
    name = f"agentbench-{secrets.token_hex(6)}"
    make: dict[str, Callable[[str], str]] = {
        "container": lambda owner: asked("create", *_labels(owner), "agentbench/py-runner:0.1.0", "true"),
        "network": lambda owner: asked("network", "create", *_labels(owner), f"{name}-{Path(owner).name[-4:]}"),
    }
    with provider() as living:
        owner = str(ground.prepare(living, spec_of()).scratch.path)
        for one in make.values():
            one(str(ground.temporary / "agentbench-docker-dead"))
        alive = [one(owner)[:12] for one in make.values()]
        with provider() as made:
            made.sweep()
        assert [each for kind in make for each in ground.owned(kind)] == alive
    assert [ground.owned(kind) for kind in make] == [[], []]


@pytest.mark.mounts
@pytest.mark.parametrize("hidden", ["temporary", ""], ids=["scratch", "scratch-and-cache"])
def test_sweeping_spares_the_living_whose_files_it_cannot_see(ground: Ground, cache: Path, hidden: str) -> None:
    """F14: two jobs with one engine and a /tmp of their own each, with a cache of both or of their own.

    That a path is not there says nothing of its owner: what the engine has of it stays while the engine has its lease.
    """
    prune = [str(Path(sys.executable).with_name("agentbench")), "docker", "prune", "--all"]
    hide = 'mount -t tmpfs tmpfs "$1" && mkdir -p "$2" && export TMPDIR="$2" && shift 2 && exec "$@"'
    places = [str(ground.directory / hidden), str(ground.temporary)]
    with provider() as living:
        environment = ground.prepare(living, spec_of("true", network_policy="setup_only"))
        with contextlib.closing(ground.start(environment)) as sandbox:
            before = [ground.owned(kind) for kind in ("container", "network", "image")]
            subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", *places, *prune], check=True)
            assert [ground.owned(kind) for kind in ("container", "network", "image")] == before
            assert environment.workspace.is_dir()
            assert sandbox.exec("true", deadline=Deadline(SOON)).ok


def _labels(owner: str) -> list[str]:
    return ["--label", f"agentbench.owner={owner}", "--label", f"agentbench.uid={os.geteuid()}"]


def test_a_provider_that_is_closed_has_nothing_left(ground: Ground, cache: Path) -> None:
    """F14: closing removes what is open, from under whoever still works with it, and starts nothing any more."""
    with provider() as made:
        environment = ground.prepare(made, spec_of("true", network_policy="setup_only"))
        sandboxes = [ground.start(environment) for _ in range(2)]
        assert len(ground.owned("network")) == 1
        with ThreadPoolExecutor(1) as pool:
            cut = pool.submit(sandboxes[0].exec, "echo begun > begun; sleep 63", deadline=Deadline(SOON))
            end = time.monotonic() + SOON
            while not list(ground.directory.glob("tree-*/begun")):
                assert time.monotonic() < end
                time.sleep(0.05)
            made.close()
            with pytest.raises(SandboxError):
                cut.result(SOON)
        with pytest.raises(SandboxError):
            ground.start(environment)
        with pytest.raises(SandboxError):
            sandboxes[1].exec("true", deadline=Deadline(SOON))
    assert ground.owned("container") == []
    assert ground.owned("network") == []
