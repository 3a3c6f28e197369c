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
PINS = f"{INSTALL} layered-one==1.0"
PROJECT = "cat a.txt > built"
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
    for name, version in (("layered_one", "1.0"), ("layered_one", "2.0"), ("layered_two", "1.0")):
        wheel(name, version, place / "packages")
    hostile_sdist(place / "packages")
    (place / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /packages\n")
    recipe = f"FROM {building.TAG}\nCOPY packages /packages\nCOPY pip.conf /etc/pip.conf\n"
    (place / "Dockerfile").write_text(recipe)
    name = f"agentbench-test/layers:{secrets.token_hex(4)}"
    build = ["docker", "build", "--quiet", "--tag", name, str(place)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """An empty cache of its own for a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / secrets.token_hex(4)))
    yield Cache()
    removed = CliRunner().invoke(docker, ["prune", "--all"])
    assert removed.exit_code == 0, removed.output
    assert images(Cache()) == []


@pytest.fixture
def provider(cache: Cache) -> Iterator[DockerProvider]:
    provider = DockerProvider(DockerOptions())
    yield provider
    provider.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    directory.mkdir()
    (directory / "a.txt").write_text("a\n")
    return directory


Make = Callable[..., DockerEnvironment]


@pytest.fixture
def spec_of(image: str) -> Callable[..., EnvironmentSpec]:
    def make(*commands: str, shared_cache: bool = True) -> EnvironmentSpec:
        """The setup of a commit that no other call uses."""
        return EnvironmentSpec(
            commit=secrets.token_hex(20),
            settings=EnvironmentSettings(network_policy="none", mem_limit_mb=256, docker_image=image),
            setup=Setup(commands=commands, capture=(), shared_cache=shared_cache),
        )

    return make


@pytest.fixture
def make(provider: DockerProvider, tree: Path, spec_of: Callable[..., EnvironmentSpec]) -> Make:
    def prepare(*commands: str, log: RecordingLog | None = None, shared_cache: bool = True) -> DockerEnvironment:
        spec = spec_of(*commands, shared_cache=shared_cache)
        return provider.prepare(spec, tree, log or RecordingLog(), Deadline(120))

    return prepare


def images(cache: Cache) -> list[str]:
    """Names of the images of a cache."""
    shown = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
    names = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name.endswith(f"-{cache.mark}")]


def run(environment: DockerEnvironment, command: str) -> str:
    """The output of a command that must succeed, in the prepared tree."""
    result = environment.run_once(Command(command, read_only=True), environment.workspace, Deadline(60))
    assert result.ok, result
    return result.stdout.text.strip()


VERSION = "python -c 'import layered_one; print(layered_one.VERSION)'"


@pytest.mark.long
def test_commits_with_equal_pins_share_a_layer(make: Make, cache: Cache) -> None:
    """The packages are installed once, each log contains every command, and each environment has its own files."""
    logs = [RecordingLog(), RecordingLog()]
    first, second = (make(PINS, PROJECT, log=log) for log in logs)
    assert [log.commands for log in logs] == [[PINS, PROJECT], [PROJECT]]
    assert [log.reused_commands for log in logs] == [[], [PINS]]
    ran, reused = (log.results[0] for log in logs)
    assert "Successfully installed layered-one-1.0" in ran.stdout.text
    assert (reused.stdout.text, reused.exit_code, reused.duration_sec) == (ran.stdout.text, 0, ran.duration_sec)
    assert first.facts["layer"] == second.facts["layer"]
    assert first.facts["cache"] == "miss"
    assert second.facts["cache"].startswith("miss; layer prepared at 20")
    assert first.digest != second.digest
    for environment in (first, second):
        assert run(environment, VERSION) == "1.0"
        assert (environment.workspace / "built").read_text() == "a\n"
    assert len(images(cache)) == 3


def test_the_digest_does_not_depend_on_whether_a_layer_exists(
    make: Make, spec_of: Callable[..., EnvironmentSpec], tree: Path, provider: DockerProvider
) -> None:
    spec = spec_of(PINS)  # nothing else: the environment is the layer with a workspace
    before = provider.prepare(spec, tree, RecordingLog(), Deadline(120))
    subprocess.run(["docker", "image", "rm", "--force", before.image.id], check=True, capture_output=True)
    after = provider.prepare(spec, tree, RecordingLog(), Deadline(120))
    assert after.facts["cache"].startswith("miss; layer prepared at 20")
    assert after.digest == before.digest
    assert run(after, VERSION) == "1.0"


@pytest.mark.long
def test_different_pins_have_different_layers(make: Make, cache: Cache) -> None:
    """H39: other versions, and the same commands without the shared cache, are other layers."""
    log = RecordingLog()
    made = [
        make(PINS, log=log),
        make(PINS.replace("1.0", "2.0"), log=log),
        make(PINS, f"{INSTALL} layered-two==1.0", log=log),
        make(PINS, shared_cache=False, log=log),
    ]
    assert log.reused_commands == []
    assert len({environment.facts["layer"] for environment in made}) == 4
    assert [run(environment, VERSION) for environment in made] == ["1.0", "2.0", "1.0", "1.0"]
    assert "layer" not in make(PROJECT, PINS).facts


def test_shared_cache_is_mounted_only_if_enabled(make: Make, provider: DockerProvider) -> None:
    """H39, M05: without the shared cache, neither the layer nor the rest of the setup has the mount."""
    mounted: list[bool] = []

    def look() -> None:
        owned = ["docker", "ps", "--quiet", "--filter", f"label={OWNER}={provider._scratch.path}"]
        (container,) = subprocess.run(owned, capture_output=True, text=True, check=True).stdout.split()
        shown = ["docker", "inspect", "--format", "{{range .Mounts}}{{.Destination}} {{end}}", container]
        mounted.append("/agentbench/pip-cache" in subprocess.run(shown, capture_output=True, text=True).stdout)

    names = "echo $PIP_CACHE_DIR $PIP_NO_CACHE_DIR"
    for shared_cache, expected in ((True, "/agentbench/pip-cache"), (False, "1")):
        log = RecordingLog(on_start=look)
        make(PINS, names, shared_cache=shared_cache, log=log)
        assert log.results[-1].stdout.text.strip() == expected
    assert mounted == [True, True, False, False]


def test_concurrent_setups_make_the_layer_once(make: Make) -> None:
    logs = [RecordingLog() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda log: make(PINS, log=log), logs))
    assert sorted(log.commands for log in logs) == [[], [], [PINS]]
    assert all(log.commands + log.reused_commands == [PINS] for log in logs)
    assert {run(environment, VERSION) for environment in made} == {"1.0"}


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


def test_a_failure_is_the_same_without_a_layer(make: Make, cache: Cache) -> None:
    """The message names the command and pip's reason, every attempt runs it again, and no layer is left."""
    missing = f"{INSTALL} layered-none==1.0"
    for _ in range(2):
        log = RecordingLog()
        with pytest.raises(SetupError, match=r"the setup command 'python -m pip .*' ended with exit code 1") as caught:
            make(missing, PROJECT, log=log)
        assert "No matching distribution found for layered-none==1.0" in caught.value.message
        assert caught.value.facts["os"].startswith("Debian")
        assert log.commands == log.finished_commands == [missing]
    assert cache.entries() == []
    assert images(cache) == []


def test_a_layer_is_kept_as_long_as_its_environments(
    make: Make, provider: DockerProvider, cache: Cache, tmp_path: Path
) -> None:
    """Sizes do not count a layer twice; pruning never removes a layer before the environments that start from it."""
    client = Client(os.environ, tmp_path)
    fill = "head -c 3000000 /dev/urandom > /opt/venv/heavy"
    one, two = make(PINS, fill), make(PINS, fill)
    lone = make(PINS.replace("1.0", "2.0"))
    stored = storage.stored_environments(client, cache)
    assert all(item.in_use for item in stored)
    assert len(stored) == 5
    assert "  layer  " in CliRunner().invoke(docker, ["list"]).output
    provider.close()
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


def test_a_layer_that_is_lost_is_made_again(make: Make, cache: Cache) -> None:
    """Its image was removed by someone else. If only the log of its commands is damaged, their output is empty."""
    make(PINS)
    (layer,) = [entry for entry in cache.entries() if entry.kind == "layer"]
    saved = cache.workspace(layer).with_name("log.json")
    for damaged in ('[{"command": 1}]', "{", "7"):
        saved.write_text(damaged)
        assert layers._ran(saved) == {}
    log = RecordingLog()
    make(PINS, log=log)
    assert (log.reused_commands, log.results[0].exit_code, log.results[0].stdout.text) == ([PINS], 0, "")
    subprocess.run(["docker", "image", "rm", "--force", *images(cache)], check=True, capture_output=True)
    log = RecordingLog()
    assert run(make(PINS, log=log), VERSION) == "1.0"
    assert log.commands == [PINS]


def test_killed_before_the_layer_is_recorded(
    cache: Cache, tree: Path, provider: DockerProvider, spec_of: Callable[..., EnvironmentSpec]
) -> None:
    """The image without a description is removed by the next sweep, and the layer is made again."""
    spec = spec_of(PINS, PROJECT)
    command = [sys.executable, "-c", textwrap.dedent(KILLED), json.dumps(dump(spec)), str(tree)]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (image,) = images(cache)
    assert cache.entries() == []
    assert f"image {image}" in provider.sweep()
    assert images(cache) == []
    log = RecordingLog()
    assert run(provider.prepare(spec, tree, log, Deadline(120)), VERSION) == "1.0"
    assert log.commands == [PINS, PROJECT]


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
