"""Layers: setups with the same pinned packages install them once. Engine, pip, packages and processes are real."""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from agentbench_core import Command, Deadline, EnvironmentSpec, SetupError, dump
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker import building, layers, storage
from agentbench_docker.cache import Cache
from agentbench_docker.client import Client
from agentbench_docker.command import docker
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.owner import OWNER
from agentbench_docker.provider import DockerProvider
from agentbench_testing import RecordingLog

pytestmark = pytest.mark.docker

INSTALL = "python -m pip install --no-deps"
PINS, OTHER_PINS, FOR_SETTING, FOR_THREADS, FOR_LOSS, FOR_KILL = (
    f"{INSTALL} layered-one=={number}.0" for number in range(1, 7)
)
"""The tests of this module share a cache. Those that need pins without a layer have their own."""
PROJECT = "cat a.txt > built"
VERSION = "python -c 'import layered_one; print(layered_one.VERSION)'"
HOSTILE = f"{INSTALL} layered-hostile==1.0"

BACKEND = """
import os, subprocess, zipfile
for place in ("/workspace", "/tmp", "/var/tmp", os.path.expanduser("~"), "/opt/venv"):
    open(f"{place}/hostile", "w").close()
loop = "while :; do touch /workspace/hostile; sleep 0.1; done"
subprocess.Popen(loop, shell=True, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name, info = "layered_hostile-1.0-py3-none-any.whl", "layered_hostile-1.0.dist-info"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("layered_hostile.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: layered-hostile\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
"""A build backend that writes wherever it can, also while later commands run."""

KILLED = """
import json, os, signal, sys
from pathlib import Path
from agentbench_core import Deadline, EnvironmentSpec, load
from agentbench_docker import cache
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_testing import RecordingLog

def dies(self, entry):
    assert entry.kind == "layer"
    os.kill(os.getpid(), signal.SIGKILL)

cache.Cache.save = dies
spec = load(json.loads(sys.argv[1]), EnvironmentSpec, where="the test")
DockerProvider(DockerOptions()).prepare(spec, Path(sys.argv[2]), RecordingLog(), Deadline(120))
"""


def wheel(name: str, version: str, directory: Path) -> None:
    """Write a wheel with one module."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def hostile_sdist(directory: Path) -> None:
    """Write a source distribution that runs ``BACKEND`` when it is installed."""
    pyproject = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    info = "Metadata-Version: 2.1\nName: layered-hostile\nVersion: 1.0\n"
    with tarfile.open(directory / "layered_hostile-1.0.tar.gz", "w:gz") as file:
        for name, text in {"pyproject.toml": pyproject, "backend.py": BACKEND, "PKG-INFO": info}.items():
            member = tarfile.TarInfo(f"layered_hostile-1.0/{name}")
            member.size = len(text.encode())
            file.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The default image with a directory of packages, which pip uses instead of an index."""
    place = tmp_path_factory.mktemp("image")
    (place / "packages").mkdir()
    for number in range(1, 7):
        wheel("layered_one", f"{number}.0", place / "packages")
    wheel("layered_two", "1.0", place / "packages")
    hostile_sdist(place / "packages")
    (place / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /packages\n")
    recipe = f"FROM {building.TAG}\nCOPY packages /packages\nCOPY pip.conf /etc/pip.conf\n"
    (place / "Dockerfile").write_text(recipe)
    name = f"agentbench-test/layers:{secrets.token_hex(4)}"
    build = ["docker", "build", "--quiet", "--tag", name, str(place)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


@pytest.fixture(scope="module")
def cache(place: Path) -> Iterator[Cache]:
    """The cache of this module, which is pruned at the end."""
    yield Cache()
    prune_all()


@pytest.fixture
def own_provider(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerProvider]:
    """A provider with an empty cache of its own for a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / secrets.token_hex(4)))
    provider = DockerProvider(DockerOptions())
    yield provider
    provider.close()
    prune_all()


def prune_all() -> None:
    removed = CliRunner().invoke(docker, ["prune", "--all"])
    assert removed.exit_code == 0, removed.output
    assert images(Cache()) == []


@pytest.fixture(scope="module")
def provider(cache: Cache) -> Iterator[DockerProvider]:
    provider = DockerProvider(DockerOptions())
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def tree(place: Path) -> Path:
    directory = place / "tree"
    directory.mkdir()
    (directory / "a.txt").write_text("a\n")
    return directory


Make = Callable[..., DockerEnvironment]


@pytest.fixture(scope="module")
def spec_of(image: str) -> Callable[..., EnvironmentSpec]:
    def make(*commands: str, shared_cache: bool = True) -> EnvironmentSpec:
        """The setup of a commit that no other call uses."""
        return EnvironmentSpec(
            commit=secrets.token_hex(20),
            settings=EnvironmentSettings(network_policy="none", mem_limit_mb=256, docker_image=image),
            setup=Setup(commands=commands, capture=(), shared_cache=shared_cache),
        )

    return make


@pytest.fixture(scope="module")
def make(provider: DockerProvider, tree: Path, spec_of: Callable[..., EnvironmentSpec]) -> Make:
    return maker(provider, tree, spec_of)


def maker(provider: DockerProvider, tree: Path, spec_of: Callable[..., EnvironmentSpec]) -> Make:
    def prepare(*commands: str, log: RecordingLog | None = None, shared_cache: bool = True) -> DockerEnvironment:
        spec = spec_of(*commands, shared_cache=shared_cache)
        return provider.prepare(spec, tree, log or RecordingLog(), Deadline(120))

    return prepare


def images(cache: Cache) -> list[str]:
    """Sorted names of the images of a cache."""
    shown = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
    names = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in names if name.endswith(f"-{cache.mark}"))


def run(environment: DockerEnvironment, command: str) -> str:
    """The output of a command that must succeed, in the prepared tree."""
    result = environment.run_once(Command(command, read_only=True), environment.workspace, Deadline(60))
    assert result.ok, result
    return result.stdout.text.strip()


def last_output(log: RecordingLog) -> str:
    """The output of the last command of a setup."""
    return log.results[-1].stdout.text.strip()


@pytest.mark.long
def test_commits_with_equal_pins_share_a_layer(
    provider: DockerProvider, make: Make, cache: Cache, tree: Path, spec_of: Callable[..., EnvironmentSpec]
) -> None:
    """The packages are installed once, each log contains every command, and each environment has its own files.

    The digest of an environment does not depend on whether its layer exists.
    """
    known, logs = images(cache), [RecordingLog(), RecordingLog()]
    spec = spec_of(PINS)  # nothing else: the environment is the layer with a workspace
    first = provider.prepare(spec, tree, logs[0], Deadline(120))
    second = make(PINS, PROJECT, log=logs[1])
    assert [log.commands for log in logs] == [[PINS], [PROJECT]]
    assert [log.reused_commands for log in logs] == [[], [PINS]]
    ran, reused = (log.results[0] for log in logs)
    assert "Successfully installed layered-one-1.0" in ran.stdout.text
    assert (reused.stdout.text, reused.exit_code, reused.duration_sec) == (ran.stdout.text, 0, ran.duration_sec)
    assert first.facts["layer"] == second.facts["layer"]
    assert first.facts["cache"] == "miss"
    assert second.facts["cache"].startswith("miss; layer prepared at 20")
    assert first.digest != second.digest
    assert len(images(cache)) == len(known) + 3
    assert (second.workspace / "built").read_text() == "a\n"
    assert not (first.workspace / "built").exists()

    subprocess.run(["docker", "image", "rm", "--force", first.image.id], check=True, capture_output=True)
    again = provider.prepare(spec, tree, RecordingLog(), Deadline(120))
    assert again.facts["cache"].startswith("miss; layer prepared at 20")
    assert again.digest == first.digest
    for environment in (again, second):
        assert run(environment, VERSION) == "1.0"


@pytest.mark.release
def test_different_pins_have_different_layers(make: Make) -> None:
    """H39: other versions and more packages are other layers."""
    logs = [RecordingLog(), RecordingLog()]
    other = make(OTHER_PINS, VERSION, log=logs[0])
    more = make(PINS, f"{INSTALL} layered-two==1.0", VERSION, log=logs[1])
    assert [log.reused_commands for log in logs] == [[], []]
    assert [last_output(log) for log in logs] == ["2.0", "1.0"]
    assert len({environment.facts["layer"] for environment in (make(PINS), other, more)}) == 3
    assert "layer" not in make(PROJECT, PINS).facts


@pytest.mark.release
def test_shared_cache_is_mounted_only_if_enabled(make: Make, provider: DockerProvider) -> None:
    """H39, M05: without the shared cache, neither the layer, which is another one, nor the rest has the mount."""
    mounted: list[bool] = []
    used: set[str] = set()

    def look() -> None:
        owned = ["docker", "ps", "--quiet", "--filter", f"label={OWNER}={provider._scratch.path}"]
        (container,) = subprocess.run(owned, capture_output=True, text=True, check=True).stdout.split()
        shown = ["docker", "inspect", "--format", "{{range .Mounts}}{{.Destination}} {{end}}", container]
        mounted.append("/agentbench/pip-cache" in subprocess.run(shown, capture_output=True, text=True).stdout)

    names = "echo $PIP_CACHE_DIR $PIP_NO_CACHE_DIR"
    for shared_cache, expected in ((True, "/agentbench/pip-cache"), (False, "1")):
        log = RecordingLog(on_start=look)
        used.add(make(FOR_SETTING, names, shared_cache=shared_cache, log=log).facts["layer"])
        assert last_output(log) == expected
        assert log.reused_commands == []
    assert len(used) == 2
    assert mounted == [True, True, False, False]


@pytest.mark.long
def test_concurrent_setups_make_the_layer_once(make: Make) -> None:
    logs = [RecordingLog() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda log: make(FOR_THREADS, VERSION, log=log), logs))
    assert sorted([*log.commands, "reused", *log.reused_commands] for log in logs) == [
        [VERSION, "reused", FOR_THREADS],
        [VERSION, "reused", FOR_THREADS],
        [FOR_THREADS, VERSION, "reused"],
    ]
    assert {last_output(log) for log in logs} == {"4.0"}


@pytest.mark.long
def test_files_written_by_a_package_reach_no_workspace(make: Make) -> None:
    """H39: what it writes to the workspace, /tmp or HOME is lost, and its processes end with the layer's container."""
    look = "ls -A . /tmp /var/tmp ~ /opt/venv; grep --files-with-matches 'hos[t]ile' /proc/[0-9]*/cmdline; true"
    log = RecordingLog()
    for _ in range(2):
        environment = make(HOSTILE, look, log=log)
        assert "Successfully installed" in log.results[0].stdout.text
        seen = log.results[-1].stdout.text
        assert seen.partition("/opt/venv:")[2].split().count("hostile") == 1
        assert seen.count("hostile") == 1
        assert "/proc" not in seen
        assert sorted(path.name for path in environment.workspace.iterdir()) == ["a.txt"]
    assert log.reused_commands == [HOSTILE]


@pytest.mark.long
def test_a_failure_is_the_same_without_a_layer(make: Make, cache: Cache) -> None:
    """The message names the command and pip's reason, every attempt runs it again, and no layer is left."""
    missing = f"{INSTALL} layered-none==1.0"
    known = cache.entries(), images(cache)
    for _ in range(2):
        log = RecordingLog()
        with pytest.raises(SetupError, match=r"the setup command 'python -m pip .*' ended with exit code 1") as caught:
            make(missing, PROJECT, log=log)
        assert "No matching distribution found for layered-none==1.0" in caught.value.message
        assert caught.value.facts["os"].startswith("Debian")
        assert log.commands == log.finished_commands == [missing]
    assert (cache.entries(), images(cache)) == known


@pytest.mark.release
def test_a_layer_is_kept_as_long_as_its_environments(
    own_provider: DockerProvider, tree: Path, spec_of: Callable[..., EnvironmentSpec], tmp_path: Path
) -> None:
    """Sizes do not count a layer twice; pruning never removes a layer before the environments that start from it."""
    client, cache = Client(os.environ, tmp_path), Cache()
    make = maker(own_provider, tree, spec_of)
    fill = "head -c 3000000 /dev/urandom > /opt/venv/heavy"
    one, two = make(PINS, fill), make(PINS, fill)
    lone = make(OTHER_PINS)
    stored = storage.stored_environments(client, cache)
    assert all(item.in_use for item in stored)
    assert len(stored) == 5
    assert "  layer  " in CliRunner().invoke(docker, ["list"]).output
    own_provider.close()
    sizes = {item.entry.key: item.bytes for item in storage.stored_environments(client, cache)}
    assert all(3_000_000 < sizes[environment.digest] < 3_100_000 for environment in (one, two))
    assert all(0 < sizes[environment.facts["layer"]] < 1_000_000 for environment in (one, lone))

    os.utime(cache.root / "environments" / one.facts["layer"].removeprefix("sha256:")[:32] / "entry.json", (1, 1))
    os.utime(cache.root / "environments" / one.digest.removeprefix("sha256:")[:32] / "entry.json", (2, 2))
    stored = storage.stored_environments(client, cache)
    old = storage.select_for_removal(stored, older_than_days=1, max_bytes=None)
    assert [item.entry.key for item in old] == [one.digest]
    everything = [item.entry for item in storage.select_for_removal(stored, older_than_days=0, max_bytes=None)]
    for entry in everything:
        assert all(other.layer != entry.key for other in everything[everything.index(entry) :])
    (layer,) = [item for item in stored if item.entry.key == one.facts["layer"]]
    assert not storage.remove(client, cache, layer)
    assert storage.remove(client, cache, old[0])
    assert not storage.remove(client, cache, layer)
    (other,) = [item for item in stored if item.entry.key == two.digest]
    assert storage.remove(client, cache, other)
    assert storage.remove(client, cache, layer)
    assert len(images(cache)) == 2


@pytest.mark.release
def test_a_layer_that_is_lost_is_made_again(make: Make, cache: Cache) -> None:
    """Its image was removed by someone else. If only the log of its commands is damaged, their output is empty."""
    key = make(FOR_LOSS).facts["layer"]
    (layer,) = [entry for entry in cache.entries() if entry.key == key]
    assert layer.kind == "layer"
    saved = cache.workspace(layer).with_name("log.json")
    for damaged in ('[{"command": 1}]', "{", "7"):
        saved.write_text(damaged)
        assert layers._ran(saved) == {}
    log = RecordingLog()
    make(FOR_LOSS, log=log)
    assert (log.reused_commands, log.results[0].exit_code, log.results[0].stdout.text) == ([FOR_LOSS], 0, "")
    lost = [storage.image_name(entry.key, cache) for entry in cache.entries() if key in (entry.key, entry.layer)]
    subprocess.run(["docker", "image", "rm", "--force", *lost], check=True, capture_output=True)
    log = RecordingLog()
    make(FOR_LOSS, VERSION, log=log)
    assert log.commands == [FOR_LOSS, VERSION]
    assert last_output(log) == "5.0"


@pytest.mark.release
def test_killed_before_the_layer_is_recorded(
    cache: Cache, tree: Path, provider: DockerProvider, spec_of: Callable[..., EnvironmentSpec]
) -> None:
    """The image without a description is removed by the next sweep, and the layer is made again."""
    known = cache.entries(), set(images(cache))
    spec = spec_of(FOR_KILL, VERSION)
    command = [sys.executable, "-c", textwrap.dedent(KILLED), json.dumps(dump(spec)), str(tree)]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (image,) = set(images(cache)) - known[1]
    assert cache.entries() == known[0]
    assert f"image {image}" in provider.sweep()
    assert set(images(cache)) == known[1]
    log = RecordingLog()
    provider.prepare(spec, tree, log, Deadline(120))
    assert log.commands == [FOR_KILL, VERSION]
    assert last_output(log) == "6.0"


@pytest.mark.parametrize(
    ("variables", "count"),
    [((), 2), (("PIP_INDEX_URL", "PYTHON_VERSION", "TOKEN"), 2), (("PIP_CONSTRAINT",), 0), (("PYTHONPATH",), 0)],
)
def test_variables_that_may_name_files_of_the_workspace(variables: tuple[str, ...], count: int) -> None:
    """With such variables, the result of the commands may depend on the workspace."""
    spec = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(), setup=Setup(commands=(PINS, PINS, PROJECT)))
    pins, rest = layers.split_setup(spec, variables)
    assert pins.setup.commands + rest.setup.commands == spec.setup.commands
    assert len(pins.setup.commands) == count
    assert attrs.evolve(rest, setup=spec.setup) == spec
