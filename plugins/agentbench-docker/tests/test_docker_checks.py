"""The checks of the sandbox for ``doctor``, with a real engine; they remove and pull nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from agentbench_core import EnvironmentSpec, Finding, UnavailableError
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker import building, checks
from agentbench_docker.cache import Cache, Entry, now
from agentbench_docker.options import DockerOptions
from agentbench_docker.owner import KEEPER, OWNER, USER
from agentbench_docker.provider import DockerProvider

VARIABLES = (*building.CERTIFICATE_VARIABLES, *checks._PROXIES)
AGENTBENCH = str(Path(sys.executable).with_name("agentbench"))


def spec(image: str = building.TAG, memory: int = 256) -> EnvironmentSpec:
    settings = EnvironmentSettings(docker_image=image, mem_limit_mb=memory)
    return EnvironmentSpec(commit="0" * 40, settings=settings, setup=Setup())


def found(*specs: EnvironmentSpec, **options: object) -> dict[str, Finding]:
    """The findings of all checks, by name."""
    with contextlib.closing(DockerProvider(attrs.evolve(DockerOptions(), **options))) as provider:
        return {name: check() for name, check in provider.checks(specs or [spec()]).items()}


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a home of its own, without proxies; returns the cache."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "cache/agentbench/docker"


@pytest.mark.docker
def test_a_machine_with_everything(clean: Path) -> None:
    """Versions, free space, and the age of the image, which this checkout would build again in the same way."""
    findings = found()
    of_the_machine = {"runc", "buildx", "disk", "leftovers"}  # a killed run of another checkout has leftovers
    assert {name for name, finding in findings.items() if finding.status != "ok"} <= of_the_machine
    assert all(finding.remedy for finding in findings.values() if finding.status != "ok")
    assert findings["engine"].detail.startswith("version ")
    assert "free in /" in findings["disk"].detail
    assert findings["image"].detail.startswith(f"{building.TAG}, ")
    assert " ago from " in findings["image"].detail
    assert findings["image"].detail.endswith("with the current recipe")


@pytest.mark.docker
def test_images_that_are_missing_or_of_another_recipe(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that a run pulls is a warning, and nothing is pulled; one that nobody provides is a failure."""
    monkeypatch.setattr(building, "recipe", lambda: "another")
    monkeypatch.setenv("PIP_CERT", "/proxy.crt")
    ours, foreign = "agentbench/py-runner:0.0.0", "agentbench-test/absent:1"
    findings = found(spec(), spec(ours), spec(foreign))
    old, missing, pulled = (findings[f"image {name}"] for name in (building.TAG, ours, foreign))
    assert (old.status, old.remedy) == (
        "warning",
        f"To rebuild it, run: docker image rm {building.TAG} && agentbench docker build",
    )
    assert (missing.status, missing.remedy) == ("failed", "Run: agentbench docker build --ca-bundle /proxy.crt")
    assert (pulled.status, pulled.remedy) == ("warning", f"To pull it now, run: docker pull {foreign}")
    never = found(spec(foreign), pull="never")["image"]
    assert (never.status, never.remedy) == ("failed", f"Run: docker pull {foreign}")


@pytest.mark.docker
def test_an_engine_that_cannot_run_the_tasks(clean: Path) -> None:
    """Memory, options and free space fail their own check only."""
    with contextlib.closing(DockerProvider(DockerOptions(ca_bundle="/nowhere.crt"))) as provider:
        questions = provider.checks([spec()])
        with pytest.raises(UnavailableError, match=r"file '/nowhere.crt' does not exist"):
            questions["engine"]()
        assert questions["image"]().status == "ok"
    with (
        contextlib.closing(DockerProvider(DockerOptions())) as provider,
        pytest.raises(UnavailableError, match="requires 16000000 MiB of memory"),
    ):
        provider.checks([spec(memory=16_000_000)])["engine"]()


@pytest.mark.docker
@pytest.mark.parametrize(("free", "status"), [(20 << 30, "ok"), (5 << 30, "warning"), (1 << 20, "failed")])
def test_free_space_of_an_engine_in_a_virtual_machine(
    clean: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str
) -> None:
    """Its directory is not visible here, so a container measures it; the cache counts as well."""
    monkeypatch.setattr(checks, "_free", lambda path: free)
    with contextlib.closing(DockerProvider(DockerOptions())) as provider:
        engine = provider._connect()
        elsewhere = attrs.evolve(engine.facts, root="/not/visible")
        monkeypatch.setattr(provider, "_engine", attrs.evolve(engine, facts=elsewhere))
        finding = provider.checks([spec()])["disk"]()
    assert finding.status == status
    assert " free in /not/visible, " in finding.detail
    assert bool(finding.remedy) == (status != "ok")


@contextlib.contextmanager
def leftovers() -> Iterator[tuple[str, str]]:
    """A container and a network of a dead provider, and a container of a living one; returns the first two."""
    mark = secrets.token_hex(4)
    dead, living = f"/dead-{mark}", f"/living-{mark}"
    user = f"{USER}={os.geteuid()}"
    run = ["run", "--detach", "--network", "none", "--entrypoint", "sleep", "--label", user]
    keeper = docker(*run, "--label", f"{KEEPER}={living}", building.TAG, "600")
    used = docker(*run, "--label", f"{OWNER}={living}", building.TAG, "600")
    orphan = docker(*run, "--label", f"{OWNER}={dead}", building.TAG, "600")
    network = f"agentbench-{mark}"
    docker("network", "create", "--label", user, "--label", f"{OWNER}={dead}", network)
    yield orphan, network
    for container in (keeper, used, orphan):
        subprocess.run(["docker", "rm", "--force", container], capture_output=True)
    subprocess.run(["docker", "network", "rm", network], capture_output=True)


@pytest.mark.long
@pytest.mark.docker
@pytest.mark.usefixtures("clean")
def test_leftovers_of_killed_runs_are_named_and_kept() -> None:
    """Those of living providers are not named; ``docker prune`` removes what is named."""
    for _ in range(5):
        with leftovers() as (container, network):
            finding = found()["leftovers"]
            if not docker("network", "ls", "--quiet", "--filter", f"name={network}"):
                continue  # another test has started a provider, which removes leftovers
            assert finding.status == "warning"
            assert f"container {container[:12]}" in finding.detail
            assert f"network {network}" in finding.detail
            assert finding.remedy == "Run: agentbench docker prune"
            subprocess.run([AGENTBENCH, "docker", "prune"], check=True, capture_output=True)
            assert container[:12] not in found()["leftovers"].detail
            return
    pytest.fail("other tests removed the leftovers five times")


@pytest.mark.docker
def test_old_environments_are_counted_with_their_size(clean: Path) -> None:
    """Only those unused for 30 days are stale; the command in the remedy removes them."""
    cache = Cache()
    for key, days in (("sha256:" + "a" * 64, 40), ("sha256:" + "b" * 64, 1)):
        workspace = cache.new_tree(key, "t")
        workspace.mkdir()
        (workspace / "file").write_bytes(os.urandom(2 << 20))
        entry = Entry(
            key=key,
            image="sha256:1",
            base="base",
            base_id="sha256:1",
            hosted=True,
            variables={},
            commit="0" * 40,
            facts={},
            created_at=now(),
            tree="t",
            volumes=(),
        )
        cache.save(entry)
        os.utime(
            clean / "environments" / key.removeprefix("sha256:")[:32] / "entry.json", (time.time() - days * 86_400,) * 2
        )
    finding = found()["environments"]
    assert finding == Finding(
        "warning",
        f"2 prepared in {clean}, 4.0 MiB; 1 unused for 30 days, 2.0 MiB",
        "Run: agentbench docker prune --older-than 30",
    )
    command = finding.remedy.removeprefix("Run: agentbench ").split()
    subprocess.run([AGENTBENCH, *command], check=True, capture_output=True)
    assert found()["environments"] == Finding("ok", f"1 prepared in {clean}, 2.0 MiB")


@pytest.mark.docker
def test_proxies_name_the_settings_that_setup_needs(
    clean: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Variables and pip's own configuration count; the check is satisfied by the settings that it names."""
    assert found()["proxy"].status == "ok"
    pip = tmp_path / "pip.conf"
    pip.write_text("[global]\ncert = /corporate.crt\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(pip))
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:3128")
    finding = found()["proxy"]
    assert finding.status == "warning"
    assert f"cert in {pip} is /corporate.crt" in finding.detail
    assert "--set sandbox.ca_bundle=/corporate.crt" in finding.remedy
    assert "--set sandbox.setup_environment=[HTTPS_PROXY]" in finding.remedy
    assert "secret" not in finding.detail + finding.remedy
    (tmp_path / "corporate.crt").touch()
    settled = found(ca_bundle=str(tmp_path / "corporate.crt"), setup_environment=("HTTPS_PROXY",))["proxy"]
    assert settled.status == "ok"


@pytest.mark.docker
def test_without_an_engine_there_are_no_checks(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one problem is reported, and not once per check."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with (
        contextlib.closing(DockerProvider(DockerOptions())) as provider,
        pytest.raises(UnavailableError, match="cannot reach a Docker engine"),
    ):
        provider.checks([spec()])
