"""Prepared environments that one Docker engine saves and another one loads, as a directory or through a registry."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import RunView
from agentbench_core.values.events import SetupCommandStarted, TaskStarted
from agentbench_docker.cache import Cache, Entry
from tests.conftest import Ended
from tests.docker.engines import IMAGE, Engine, private_engine, wait_until
from tests.run.remote.comparing import event_types, only_run, plain, seen

pytestmark = [pytest.mark.docker, pytest.mark.release]

WAYS = ("directory", pytest.param("registry", marks=pytest.mark.image_registry))

SUITE = ("--suite", "mini", "--agent", "scripted", "--sandbox", "docker")
SETUP = (
    "od -An -N8 -tx8 /dev/urandom > /opt/venv/token",
    "cp /opt/venv/token token.txt && ln -s token.txt link && mkdir deep && cp token.txt deep && chmod 500 deep",
)
"""No two machines get the same result of this setup."""
PREPARED = "cmp /opt/venv/token link && cmp link deep/token.txt && stat -c %a deep | grep -x 500 && grep fixed app.txt"
"""What must hold in the prepared tree, and in the image."""
LOGIN, HASH = "robot:secret", "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
"""Credentials of the registry, and the bcrypt hash of the password."""


@attrs.frozen
class Machine:
    """An engine and a cache that share nothing with other machines."""

    name: str
    engine: Engine
    directory: Path
    command: Callable[..., Ended]

    @property
    def variables(self) -> dict[str, str]:
        """What makes commands run on this machine."""
        caches, docker = self.directory / "cache", self.directory / "docker"
        return {"DOCKER_HOST": self.engine.host, "XDG_CACHE_HOME": str(caches), "DOCKER_CONFIG": str(docker)}

    def agentbench(self, *arguments: str, code: int = 0) -> Ended:
        """Run a command on this machine."""
        done = self.command(*arguments, seconds=400, **self.variables)
        assert done.code == code, done.err
        return done

    def run(self, *flags: str) -> RunView:
        """Run the suite on this machine."""
        self.agentbench("run", *SUITE, *flags, "--out", self.name)
        return only_run(self.name)

    def login(self, registry: str) -> None:
        """Store credentials, as `docker login` does."""
        file = self.directory / "docker/config.json"
        file.parent.mkdir(parents=True)
        token = base64.b64encode(LOGIN.encode()).decode()
        file.write_text(json.dumps({"auths": {registry.partition("/")[0]: {"auth": token}}}))

    @property
    def cache(self) -> Cache:
        return Cache(self.directory / "cache/agentbench/docker")

    def tokens(self) -> list[bytes]:
        """What the setups have written into the prepared trees."""
        entries: list[Entry] = [entry for entry in self.cache.entries() if entry.kind == "environment"]
        return sorted((self.cache.workspace(entry) / "deep/token.txt").read_bytes() for entry in entries)

    def images(self) -> set[str]:
        """All names of images that its engine has."""
        return set(self.engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split())


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """An engine with the image that tasks run in, and one without images."""
    with (
        private_engine(tmp_path_factory.mktemp("one")) as one,
        private_engine(tmp_path_factory.mktemp("two")) as two,
    ):
        one.add_image()
        yield one, two


@pytest.fixture
def machines(
    engines: tuple[Engine, Engine], tmp_path: Path, agentbench_process: Callable[..., Ended]
) -> Iterator[tuple[Machine, Machine]]:
    """A machine that can prepare environments, and one that has nothing."""
    one, two = engines
    yield (
        Machine("one", one, tmp_path / "one-home", agentbench_process),
        Machine("two", two, tmp_path / "two-home", agentbench_process),
    )
    two.docker("image", "prune", "--all", "--force")
    assert two.docker("images", "--quiet").stdout == ""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """A registry of images on loopback that requires credentials; the name of a repository in it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    user, _, _ = LOGIN.partition(":")
    (tmp_path / "htpasswd").write_text(f"{user}:{HASH}\n")
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": address},
        "auth": {"htpasswd": {"realm": "tests", "path": str(tmp_path / "htpasswd")}},
    }
    (tmp_path / "registry.yml").write_text(json.dumps(settings))
    with subprocess.Popen(
        ["docker-registry", "serve", str(tmp_path / "registry.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: listens(address) or process.poll() is not None)
            assert process.poll() is None
            yield f"{address}/team/environments"
        finally:
            process.terminate()
            process.wait(60)
    shutil.rmtree(tmp_path / "registry", ignore_errors=True)


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@pytest.fixture
def tasks(make_suite: Any) -> Sequence[str]:
    """Two tasks with the same environment but for their commits, and a setup without a network."""
    names = ("one", "two")
    for name in names:
        make_suite(
            [name],
            files={"app.txt": "broken\n", "name.txt": name},
            setup={"commands": list(SETUP)},
            environment={"network_policy": "none"},
            validation={"passing_command": PREPARED},
        )
    return names


def facts(run: RunView) -> dict[str, dict[str, str]]:
    """Facts about the environment of each task, without those about the machine and the cache."""
    found = {}
    for record in run.records():
        path = run.directory / record.artifact_paths["task_dir"] / "meta/environment.json"
        found[record.task_id] = {key: value for key, value in json.loads(path.read_text()).items() if key != "cache"}
    return found


def set_up(run: RunView) -> set[bool]:
    """Whether the results of setup commands came from the cache."""
    return {entry.event.cached for entry in run.events() if isinstance(entry.event, SetupCommandStarted)}


def same(one: RunView, two: RunView) -> None:
    """Check that two runs have the same environments, records, files and events."""
    assert facts(two) == facts(one)
    assert seen(two) == seen(one)
    assert event_types(two) == event_types(one)


@pytest.mark.parametrize("through", WAYS)
def test_another_engine_gets_the_environments(
    machines: tuple[Machine, Machine], tasks: Sequence[str], through: str, request: pytest.FixtureRequest
) -> None:
    """A run there equals one where they were prepared: the same image, tree and logs, and no setup."""
    one, two = machines
    pushed: tuple[str, ...] = ()
    if through == "registry":
        repository = request.getfixturevalue("registry")
        refused = one.agentbench("docker", "save", "bundle", "--suite", "mini", "--registry", repository, code=3)
        assert "could not push" in refused.err
        assert not Path("bundle").exists()
        for machine in machines:
            machine.login(repository)
        pushed = ("--registry", repository)
    done = one.agentbench("docker", "save", "bundle", "--suite", "mini", *pushed)
    assert done.out == "saved in bundle: 2 environments, 3 images\n"
    assert Path("bundle/images.tar").exists() is not bool(pushed)
    before = one.run()
    assert set_up(before) == {True}
    assert all(record.result.passed for record in before.records()), before.explanations()

    shutil.copytree("bundle", "copied")
    done = two.agentbench("docker", "load", "copied")
    assert [line.partition(" ")[0] for line in done.out.splitlines()] == ["loaded", "loaded"]
    assert two.tokens() == one.tokens()
    assert len(set(two.tokens())) == 2
    again = two.agentbench("docker", "load", "copied")
    assert again.out == "all environments were already present\n"
    shutil.rmtree("copied")
    after = two.run()
    assert set_up(after) == {True}
    assert len(seen(after)) == len(tasks)
    assert all(record.result.passed for record in after.records()), after.explanations()
    same(before, after)

    ours = [f"{entry.key.removeprefix('sha256:')[:32]}-{two.cache.mark}" for entry in two.cache.entries()]
    assert two.images() >= {IMAGE, *(f"agentbench/environment:{tag}" for tag in ours)}
    two.agentbench("docker", "prune", "--all")
    assert not any("agentbench/environment" in name for name in two.images())
    assert not any("/team/" in name for machine in machines for name in machine.images())


def test_environments_that_a_machine_has_prepared_itself(
    machines: tuple[Machine, Machine], tasks: Sequence[str]
) -> None:
    """They are not taken for the saved ones, which have the same digests; once removed, the saved ones are loaded."""
    one, two = machines
    one.agentbench("docker", "save", "bundle", "--suite", "mini")
    two.agentbench("docker", "load", "bundle")
    two.agentbench("docker", "prune", "--all")
    two.agentbench("docker", "save", "own", "--suite", "mini")
    own = two.tokens()
    assert own != one.tokens()
    refused = two.agentbench("docker", "load", "bundle", code=2)
    assert refused.err.count("already prepared on this machine, with a different image") == len(tasks)
    assert two.tokens() == own
    two.agentbench("docker", "prune", "--all")
    two.agentbench("docker", "load", "bundle")
    assert two.tokens() == one.tokens()
    two.agentbench("docker", "prune", "--all")


@pytest.mark.parametrize("through", WAYS)
def test_an_image_with_two_names(
    machines: tuple[Machine, Machine], make_suite: Any, through: str, request: pytest.FixtureRequest
) -> None:
    """The other engine gets both of them, so that all tasks can run there."""
    one, two = machines
    other = "agentbench-test/other:1"
    one.engine.docker("tag", IMAGE, other)
    for name, image in (("one", IMAGE), ("two", other)):
        make_suite([name], environment={"network_policy": "none", "docker_image": image})
    pushed: tuple[str, ...] = ()
    if through == "registry":
        repository = request.getfixturevalue("registry")
        for machine in machines:
            machine.login(repository)
        pushed = ("--registry", repository)
    done = one.agentbench("docker", "save", "bundle", "--suite", "mini", *pushed)
    assert done.out == "saved in bundle: 2 environments, 1 image\n"
    two.agentbench("docker", "load", "bundle")
    assert two.images() >= {IMAGE, other}
    assert len(list(two.run().records())) == 2
    one.engine.docker("image", "rm", other)


def test_workers_on_two_engines(
    machines: tuple[Machine, Machine], tasks: Sequence[str], agentbench: Any, tmp_path: Path
) -> None:
    """With a bundle, they have the same environment; without it, the second one gets no attempts."""
    one, two = machines
    one.agentbench("docker", "save", "bundle", "--suite", "mini")
    two.agentbench("docker", "load", "bundle")
    made = agentbench("executor", "certs", "certs", "--host", "127.0.0.1", "--workers", "2")
    assert made.code == 0, made.err
    threads = one.run("--repeats", "3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    listen = [f"executor.{name}={value}" for name, value in pair("coordinator").items()]
    typed = [part for value in (*listen, f"executor.listen={address}") for part in ("--set", value)]
    with contextlib.ExitStack() as stack:
        run = ["run", *SUITE, "--repeats", "3", "--workers", "2", "--executor", "workers", *typed, "--out", "workers"]
        coordinator = stack.enter_context(started("coordinator", run, {"DOCKER_HOST": "unix:///nowhere"}))
        for number, machine in enumerate(machines, 1):
            files = [part for name, value in pair(f"worker-{number}").items() for part in (f"--{name}", value)]
            arguments = ["worker", "run", "--connect", address, "--name", machine.name, *files]
            stack.enter_context(started(machine.name, arguments, machine.variables))
        assert coordinator.wait(200) == 0, Path("coordinator.err").read_text()
    done = only_run("workers")
    assert "environment" not in Path("coordinator.err").read_text()
    assert {entry.event.worker for entry in done.events() if isinstance(entry.event, TaskStarted)} == {"one", "two"}
    assert set_up(done) == {True}
    assert [plain(record) for record in done.records()]
    same(threads, done)


def pair(name: str) -> dict[str, str]:
    """The certificates of a machine."""
    return {"ca": "certs/ca.pem", "certificate": f"certs/{name}.pem", "key": f"certs/{name}.key"}


@contextlib.contextmanager
def started(name: str, arguments: Sequence[str], variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command in the background."""
    command = [str(Path(sys.executable).parent / "agentbench"), *arguments]
    with (
        Path(f"{name}.err").open("wb") as errors,
        subprocess.Popen(
            command, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        ) as process,
    ):
        try:
            yield process
            process.wait(60)
        finally:
            process.kill()


def test_bundles_that_do_not_fit(machines: tuple[Machine, Machine], make_suite: Any) -> None:
    """W13: all problems are shown together, and nothing is loaded."""
    one, two = machines
    make_suite(["one"], environment={"network_policy": "none"})
    one.agentbench("docker", "save", "bundle", "--suite", "mini")
    refused = one.agentbench("docker", "save", "bundle", "--suite", "mini", code=2)
    assert "bundle already exists" in refused.err
    text = Path("bundle/environments.json").read_text()
    described = json.loads(text)
    described |= {"version": "9.9", "user": "7:7"}
    Path("bundle/environments.json").write_text(json.dumps(described))
    (tree,) = Path("bundle").glob("tree-*.tar")
    tree.write_bytes(tree.read_bytes() + b"more")
    Path("bundle/images.tar").rename("images.tar")
    two.engine.docker("import", "--message", "another image", "-", IMAGE, stdin=subprocess.DEVNULL)
    with Path("empty.tar").open("wb") as empty:
        subprocess.run(["tar", "--create", "--files-from", "/dev/null"], stdout=empty, check=True)
    with Path("empty.tar").open("rb") as empty:
        assert two.engine.docker("import", "-", IMAGE, stdin=empty).returncode == 0
    done = two.agentbench("docker", "load", "bundle", code=2)
    for problem in (
        "5 problems must be fixed first",
        "bundle was saved with agentbench-docker 9.9, but this is version ",
        "bundle was saved for containers that run as user 7:7, but containers on this machine run as ",
        f"{tree} is damaged: its content does not match the digest in its name",
        "bundle/images.tar is missing",
        f"this engine has a different image named {IMAGE}: sha256:",
    ):
        assert problem in done.err
    assert two.cache.entries() == []
    two.engine.docker("image", "rm", IMAGE)

    for content, problem in (
        ("{", "is not valid JSON"),
        ("{}", "has format None, but this version reads format 1"),
        (json.dumps(json.loads(text) | {"images": 1}), "images"),
        (text.replace(tree.stem.removeprefix("tree-"), "../" * 20 + "etc"), "tree"),
        (json.dumps(json.loads(text) | {"images": []}), "does not list all images of its environments"),
    ):
        Path("bundle/environments.json").write_text(content)
        done = two.agentbench("docker", "load", "bundle", code=2)
        assert problem in done.err, done.err
        assert "Traceback" not in done.err
    Path("bundle/environments.json").write_text(text)
    tree.write_bytes(tree.read_bytes().removesuffix(b"more"))
    Path("images.tar").rename("bundle/images.tar")
    with Path("bundle/images.tar").open("r+b") as images:
        images.truncate(1_000_000)
    before = two.images()
    done = two.agentbench("docker", "load", "bundle", code=2)
    assert "bundle/images.tar is damaged" in done.err
    assert two.images() == before
    nothing = two.agentbench("docker", "load", "no-such-directory", code=2)
    assert "no-such-directory is not a bundle" in nothing.err
    wrong = one.agentbench("docker", "save", "other", "--suite", "mini", "--registry", "https://a/b", code=2)
    assert "is not a valid repository" in wrong.err


def test_setups_that_fail(machines: tuple[Machine, Machine], make_suite: Any) -> None:
    """All of them are named, and no bundle is written."""
    one, _ = machines
    make_suite(["one", "two"], setup={"commands": ["exit 3"]}, environment={"network_policy": "none"})
    done = one.agentbench("docker", "save", "bundle", "--suite", "mini", code=2)
    for name in ("one", "two"):
        assert f"{name}: the setup command 'exit 3' ended with exit code 3" in done.err
    assert not Path("bundle").exists()
    assert list(Path().glob(".bundle-*")) == []
