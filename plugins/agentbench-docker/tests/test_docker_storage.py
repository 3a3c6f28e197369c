"""Images and prepared environments: caching, pruning, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench_core import Command, Deadline, EnvironmentSpec, InputError, SandboxError, SetupError, UnavailableError
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker import building
from agentbench_docker.client import Client
from agentbench_docker.command import docker
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.images import BaseImages
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider

pytestmark = pytest.mark.docker


class Quiet:
    def started(self, command: str) -> None:
        """Ignore it."""

    def finished(self, command: str, result: object) -> None:
        """Ignore it."""

    def reused(self, command: str, result: object) -> None:
        """Ignore it."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    place = tmp_path / "client"
    place.mkdir()
    return Client(os.environ, place)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    directory.mkdir()
    (directory / "a.txt").write_text("a\n")
    return directory


def spec_of(*commands: str, image: str = "", commit: str = "") -> EnvironmentSpec:
    settings = EnvironmentSettings(network_policy="none", mem_limit_mb=256)
    if image:
        settings = EnvironmentSettings(network_policy="none", mem_limit_mb=256, docker_image=image)
    return EnvironmentSpec(
        commit=commit or secrets.token_hex(20), settings=settings, setup=Setup(commands=commands, capture=())
    )


@pytest.fixture(scope="module")
def environment(provider: DockerProvider, pristine: Path) -> DockerEnvironment:
    """An environment without setup, of the provider of this module."""
    return provider.prepare(spec_of(), pristine, Quiet(), Deadline(120))


@pytest.fixture
def shared(provider: DockerProvider, environment: DockerEnvironment) -> DockerProvider:
    """The provider of this module, for images of tests: its lease uses another image, so that these can be removed."""
    return provider


def command(*arguments: str) -> Result:
    return CliRunner().invoke(docker, list(arguments), catch_exceptions=True)


def images(reference: str) -> list[str]:
    asked = ["docker", "images", "--quiet", "--no-trunc", reference]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


# --- the image for tasks -----------------------------------------------------------------------------------------


def test_build_makes_the_default_task_image() -> None:
    assert EnvironmentSettings().docker_image == building.TAG


def test_an_image_is_made_once_and_never_replaced() -> None:
    """Building again keeps the existing image; another recipe under the same tag is refused."""
    before = images(building.TAG)
    again = command("build")
    assert "already exists" in again.output
    assert before[0] in again.output
    refused = command("build", "--base", "debian:another").exception
    assert isinstance(refused, InputError)
    assert "docker image rm" in refused.remedy
    assert images(building.TAG) == before


def test_build_without_a_registry_fails_with_a_remedy(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without a reachable registry fails with a remedy, warns beforehand, and leaves no image."""
    monkeypatch.setattr(building, "TAG", f"agentbench-test/none:{secrets.token_hex(4)}")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/of-the-company.crt")
    said: list[str] = []
    with pytest.raises(UnavailableError, match="could not be built from localhost:9/no/such") as caught:
        building.build(client, "localhost:9/no/such:image", "", said.append)
    assert "--base debootstrap" in caught.value.remedy
    assert images(building.TAG) == []
    registry, certificates, begun = said
    assert registry.startswith("warning: the registry localhost:9 is not responding")
    assert "--base debootstrap" in registry
    assert "--ca-bundle /etc/of-the-company.crt" in certificates
    assert begun.startswith("building ")


@pytest.mark.release
def test_build_records_packages_and_reports_changed_ones(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build records package versions and hashes and reports differences from the release."""
    (tmp_path / "recipe").mkdir()
    other = "sed -i '/^Package: git$/,/^Version/s/^Version: .*/Version: 9.9/' /var/lib/dpkg/status"
    other += " && echo more >> /var/lib/dpkg/info/ripgrep.md5sums"
    recipe = f"ARG BASE\nFROM ${{BASE}}\nUSER root\nRUN {other}\nUSER agent\n"
    (tmp_path / "recipe/Dockerfile").write_text(recipe)
    before = building.TAG
    monkeypatch.setattr(building, "TAG", f"agentbench-test/packages:{secrets.token_hex(4)}")
    monkeypatch.setattr(building, "_FILES", tmp_path / "recipe")
    said: list[str] = []
    try:
        made = building.build(client, before, "", said.append)
        (note,) = [line for line in said if "git" in line]
        assert "git 9.9 (tested with 1:2." in note
        assert "ripgrep (different files)" in note
        asked = ["docker", "run", "--rm", "--network", "none", made.id, "cat", building.RECORD]
        record = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert [line.split()[1] for line in record.splitlines() if line.startswith("git ")] == ["9.9"]
        base = BaseImages(client, "never").get(building.TAG, Deadline(60))
        assert base.packages == f"sha256:{hashlib.sha256(record.encode()).hexdigest()}"
    finally:
        subprocess.run(["docker", "image", "rm", "--force", building.TAG], check=True, capture_output=True)


@pytest.mark.long
def test_tls_failure_in_setup_names_the_ca_bundle_option(shared: DockerProvider, tree: Path) -> None:
    """After a TLS failure, as behind a re-signing proxy, the message names the option that fixes it."""
    server = (
        "import http.server, ssl; tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); tls.load_cert_chain('/tmp/both');"
        "web = http.server.HTTPServer(('127.0.0.1', 4433), http.server.SimpleHTTPRequestHandler);"
        "web.socket = tls.wrap_socket(web.socket, server_side=True); open('/tmp/up', 'w'); web.serve_forever()"
    )
    key = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout /tmp/both -out /tmp/crt 2>/dev/null"
    serve = (
        f'{key}; cat /tmp/crt >> /tmp/both; (python3 -c "{server}" &) >/dev/null 2>&1; until [ -e /tmp/up ]; do :; done'
    )
    fetch = "pip download --retries 0 --no-deps -i https://localhost:4433/ iniconfig"
    with pytest.raises(SetupError, match=r"--set sandbox\.ca_bundle=FILE"):
        shared.prepare(spec_of(serve, fetch), tree, Quiet(), Deadline(120))


def test_missing_image_has_a_remedy(client: Client) -> None:
    """The remedy for a missing image is to build or pull it; with ``never`` nothing is pulled."""
    with pytest.raises(UnavailableError) as caught:
        BaseImages(client, "missing").get("agentbench/py-runner:9.9.9", Deadline(60))
    assert caught.value.remedy == "Run: agentbench docker build"
    with pytest.raises(UnavailableError, match="could not be pulled") as caught:
        BaseImages(client, "missing").get("localhost:9/no/such:image", Deadline(60))
    assert "docker pull localhost:9/no/such:image" in caught.value.remedy
    with pytest.raises(UnavailableError, match="was not found"):
        BaseImages(client, "never").get("localhost:9/no/such:image", Deadline(60))


# --- environments ------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_environments_are_listed_and_pruned(cache: Path, tree: Path) -> None:
    """``list`` shows disk use; ``prune`` removes by age and size, but nothing that is in use."""
    assert "no prepared environments" in command("list").output
    provider = DockerProvider(DockerOptions())
    try:
        heavy = "head -c 3000000 /dev/urandom > /opt/venv/heavy; head -c 2000000 /dev/urandom > here"
        kept = provider.prepare(spec_of(heavy), tree, Quiet(), Deadline(120))
        plain = provider.prepare(spec_of(), tree, Quiet(), Deadline(120))
        shown = json.loads(command("list", "--json").output)
        sizes = {each["entry"]["key"]: each["bytes"] for each in shown["environments"]}
        assert sizes[plain.digest] < 100_000
        assert 5_000_000 < sizes[kept.digest] < 6_000_000
        assert "in use" in command("list").output
        assert command("prune", "--all").output.splitlines()[-1].startswith("freed 0.0 MiB")
    finally:
        provider.close()
    image = kept.image.id
    assert (kept.workspace / "here").stat().st_size == 2_000_000
    assert command("prune").output.endswith("freed 0.0 MiB\n")  # used today; others may have left something
    assert kept.workspace.exists()
    dry = command("prune", "--max-size", "0.001", "--dry-run").output
    assert dry.count("would remove") == 1
    assert kept.workspace.exists()
    removed = command("prune", "--max-size", "0.001").output
    assert f"removed {kept.digest.removeprefix('sha256:')[:12]}" in removed
    assert not kept.workspace.exists()
    gone = subprocess.run(["docker", "image", "inspect", image], capture_output=True)
    assert gone.returncode == 1
    assert plain.workspace.exists()
    command("prune", "--all")
    assert not plain.workspace.exists()


def test_workspace_paths_that_hide_other_files_are_refused(shared: DockerProvider, tree: Path) -> None:
    """A workspace at a path that would hide other files is refused; an unusual path works."""
    spec = spec_of()
    for workdir in (
        "/",
        "/usr",
        "/opt/venv/x",
        "/proc/1",
        "relative",
        "/agentbench",
        "/tmp",
        "/home",
        "/home/agent",
    ):
        settings = EnvironmentSettings(network_policy="none", workdir=workdir)
        wrong = EnvironmentSpec(commit=spec.commit, settings=settings, setup=spec.setup)
        with pytest.raises(SetupError, match="cannot be used for the workspace"):
            shared.prepare(wrong, tree, Quiet(), Deadline(60))
    settings = EnvironmentSettings(network_policy="none", workdir="/srv/my work", mem_limit_mb=256)
    odd = EnvironmentSpec(commit=spec.commit, settings=settings, setup=spec.setup)
    environment = shared.prepare(odd, tree, Quiet(), Deadline(60))
    result = environment.run_once(Command("pwd", read_only=True), tree, Deadline(60))
    assert result.stdout.text == "/srv/my work\n"


@pytest.mark.long
def test_workspace_in_use_is_not_emptied(cache: Path, tree: Path) -> None:
    """F31: a run keeps its workspace when another run prepares the same environment again."""
    spec = spec_of("echo made > made")
    first, second = DockerProvider(DockerOptions()), DockerProvider(DockerOptions())
    try:
        used = first.prepare(spec, tree, Quiet(), Deadline(120))
        subprocess.run(["docker", "image", "rm", "--force", used.image.id], check=True, capture_output=True)
        anew = second.prepare(spec, tree, Quiet(), Deadline(120))
        assert (anew.digest, anew.facts["cache"]) == (used.digest, "miss")
        assert anew.workspace != used.workspace
        for environment in (used, anew):
            assert (environment.workspace / "made").read_text() == "made\n"
    finally:
        first.close()
        second.close()
    command("prune", "--all")
    assert not used.workspace.exists()
    assert not anew.workspace.exists()


@pytest.mark.long
def test_sweep_keeps_containers_that_users_start_from_images(cache: Path, tree: Path) -> None:
    """F14: images do not pass on our owner labels, so the sweep spares containers that users run from them."""
    provider = DockerProvider(DockerOptions())
    try:
        image = provider.prepare(spec_of("true"), tree, Quiet(), Deadline(120)).image.id
    finally:
        provider.close()
    run = ["docker", "run", "--detach", "--rm", "--network", "none", "--entrypoint", "sleep", image, "60"]
    theirs = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    try:
        assert theirs[:12] not in command("prune").output
        shown = ["docker", "inspect", "--format", "{{.State.Running}}", theirs]
        assert subprocess.run(shown, capture_output=True, text=True).stdout == "true\n"
    finally:
        subprocess.run(["docker", "rm", "--force", theirs], check=True, capture_output=True)
    command("prune", "--all")


@pytest.mark.long
def test_facts_describe_the_options_of_the_run(cache: Path, tree: Path) -> None:
    """D: the facts describe the options of this run, even if the environment comes from the cache."""
    spec = spec_of()
    facts = []
    for options in (DockerOptions(), DockerOptions(read_only_root=False, capabilities=("NET_RAW",))):
        provider = DockerProvider(options)
        try:
            facts.append(provider.prepare(spec, tree, Quiet(), Deadline(120)).facts)
        finally:
            provider.close()
    assert facts[1]["cache"].startswith("hit")
    assert facts[0]["loosened"] == "nothing"
    assert facts[1]["loosened"] == "capability NET_RAW; the root file system is writable"


# --- volumes and networks ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_image_volumes_are_tmpfs(shared: DockerProvider, tree: Path, tmp_path: Path) -> None:
    """H13: a volume declared by an image is a tmpfs, since an ordinary one would use the host's disk unwatched."""
    name = f"agentbench-test/volume:{secrets.token_hex(4)}"
    (tmp_path / "Dockerfile").write_text(f"FROM {building.TAG}\nUSER 0\nRUN mkdir -m 1777 /data\nVOLUME /data\n")
    build = ["docker", "build", "--quiet", "--tag", name, "--file", str(tmp_path / "Dockerfile"), str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    try:
        environment = shared.prepare(spec_of(image=name), tree, Quiet(), Deadline(120))
        fill = "head -c 100000000 /dev/zero > /data/x; stat -f -c %T /data; stat -c %s /data/x"
        result = environment.run_once(Command(fill, read_only=True), tree, Deadline(60))
        kind, size = result.stdout.text.split()
        assert kind == "tmpfs"
        assert int(size) == 32 << 20  # an eighth of the memory
    finally:
        subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


@pytest.mark.long
def test_sandboxes_with_network_cannot_reach_each_other(environment: DockerEnvironment, tmp_path: Path) -> None:
    """H30: sandboxes with network access cannot reach each other, even if the policy is ``always``."""
    serve = "import socket; s = socket.create_server(('0.0.0.0', 8000)); open('up', 'w').close(); s.accept()"
    reach = "import socket, sys; socket.create_connection((sys.argv[1], 8000), 3)"
    begun = f'rm -f up; python -c "{serve}" & while ! [ -e up ]; do sleep 0.05; done'
    with contextlib.ExitStack() as stack:
        sandboxes = []
        for place in (tmp_path / "one", tmp_path / "other"):
            place.mkdir()
            sandbox = environment.start(place, read_only=False, network=True, deadline=Deadline(60))
            sandboxes.append(stack.enter_context(contextlib.closing(sandbox)))
        one, other = sandboxes
        assert one.exec(begun, deadline=Deadline(30)).ok
        address = one.exec("hostname -i", deadline=Deadline(30)).stdout.text.split()[0]
        itself = one.exec(["python", "-c", reach, address], deadline=Deadline(30))
        assert itself.ok, itself.stderr.text
        assert one.exec(begun, deadline=Deadline(30)).ok
        assert not other.exec(["python", "-c", reach, address], deadline=Deadline(30)).ok


# --- an image that cannot run our process 1 ----------------------------------------------------------------------


@pytest.fixture
def without_python(tmp_path: Path) -> Iterator[str]:
    """An image with a ``python`` for its tasks but without ``python3``."""
    name = f"agentbench-test/without-python3:{secrets.token_hex(4)}"
    drop = "rm -f /usr/bin/python3 /opt/venv/bin/python3 && ln -sf /usr/bin/python3.11 /opt/venv/bin/python"
    (tmp_path / "Dockerfile").write_text(f"FROM {building.TAG}\nUSER 0\nRUN {drop}\nUSER agent\n")
    build = ["docker", "build", "--quiet", "--tag", name, "--file", str(tmp_path / "Dockerfile"), str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


@pytest.mark.release
def test_an_image_without_python(
    shared: DockerProvider,
    tree: Path,
    tmp_path: Path,
    without_python: str,
    over_once: Callable[[Path], Deadline],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands run by ``docker exec`` instead; the exit code of a one-off command is its container's."""
    environment = shared.prepare(spec_of(image=without_python), tree, Quiet(), Deadline(120))
    assert environment.facts["commands_go_through"] == "docker exec"
    assert environment.facts["python"].startswith("3.11.")
    workspace = tmp_path / "fork"
    workspace.mkdir()
    sandbox = environment.start(workspace, read_only=False, network=False, deadline=Deadline(60))
    result = sandbox.exec("echo out; echo err >&2; exit 7", deadline=Deadline(30), env={"A": "it's"})
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (7, "out\n", "err\n")
    begin = "echo begun; sleep 1; touch begun"  # the engine passes output on later than files
    late = sandbox.exec(f"setsid sleep 777 & {begin}; sleep 777", deadline=over_once(workspace / "begun"))
    assert (late.timed_out, late.stdout.text) == (True, "begun\n")
    assert "sleep\x00777" not in sandbox.exec("cat /proc/[0-9]*/cmdline", deadline=Deadline(30)).stdout.text
    sandbox.close()

    def once(what: str, deadline: Deadline | None = None) -> Any:
        return environment.run_once(Command(what), workspace, deadline or Deadline(30))

    assert once("exit 0").exit_code == 0
    assert once("exit 9").exit_code == 9
    assert once("touch late; sleep 60", over_once(workspace / "late")).timed_out
    with monkeypatch.context() as patch:  # a container that never ran has the exit code 0

        def dies_at_once(_: Any) -> subprocess.Popen[bytes]:
            pipe = subprocess.PIPE
            return subprocess.Popen(["true"], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)

        patch.setattr("agentbench_docker.container.Container.start_attached", dies_at_once)
        with pytest.raises(SandboxError, match="never ran"):
            once("exit 7")
