"""Engines that are too old or full, and images and networks that change or disappear while in use."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Command, Deadline, EnvironmentSpec, SandboxError, SetupError, UnavailableError
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_testing import RecordingLog

pytestmark = pytest.mark.docker

RUNNER = "agentbench/py-runner:0.1.0"
SOON = 60.0


@attrs.frozen
class Directories:
    """Temporary files and cache of one test, and directories to prepare and work in."""

    directory: Path

    def tree(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        return path

    @contextlib.contextmanager
    def provider(self, **options: Any) -> Iterator[DockerProvider]:
        with contextlib.closing(DockerProvider(DockerOptions(**options))) as made:
            yield made

    def prepare(self, provider: DockerProvider, spec: EnvironmentSpec) -> DockerEnvironment:
        return provider.prepare(spec, self.tree(f"pristine-{secrets.token_hex(3)}"), RecordingLog(), Deadline(SOON))

    def ask(self, environment: DockerEnvironment, command: str) -> str:
        """Return the output of a command run in a container of its own; errors on start propagate."""
        result = environment.run_once(Command(command), self.tree(f"fork-{secrets.token_hex(3)}"), Deadline(SOON))
        assert result.ok, result
        return result.stdout.text


@pytest.fixture
def dirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Directories]:
    """The directories of a test; checks afterwards that nothing is left in the engine."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Directories(tmp_path)
    left = ["--filter", "label=agentbench.owner", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
    for kind in (("ps", "--all"), ("network", "ls")):
        assert str(temporary) not in asked(*kind, *left)
    assert list(temporary.iterdir()) == []


def asked(*arguments: str) -> str:
    """Return the output of ``docker``."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def spec_of(*commands: str, **settings: Any) -> EnvironmentSpec:
    chosen = {"network_policy": "none", "mem_limit_mb": 512, **settings}
    return EnvironmentSpec(
        commit="0" * 40, settings=EnvironmentSettings(**chosen), setup=Setup(commands=commands, capture=())
    )


@pytest.fixture
def name() -> Iterator[str]:
    """A unique image name."""
    name = f"agentbench-test/{secrets.token_hex(6)}:1"
    asked("tag", RUNNER, name)
    yield name
    asked("image", "rm", "--force", name)


def image_id(name: str) -> str:
    return asked("inspect", "--format", "{{.Id}}", name).strip()


def retag(name: str) -> str:
    """Point an image name at another image and return its id."""
    container = asked("create", RUNNER, "true").strip()
    try:
        return asked("commit", "--change", "ENV RETAGGED=yes", container, name).strip()
    finally:
        asked("rm", container)


# --- F09: an engine that cannot be used --------------------------------------------------------------------------


def test_an_engine_that_is_too_old_is_refused(dirs: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    """F09: an engine that is too old is refused; the remedy names the oldest supported version."""
    real, bin_ = shutil.which("docker"), dirs.tree("bin")
    version = asked("version", "--format", "{{.Server.Version}}").strip()
    script = bin_ / "docker"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in\n'
        f'*\' version \'*) {real} "$@" | sed \'s/"{version}"/"19.03.15"/g\' ;;\n'
        f'*) exec {real} "$@" ;;\nesac\n'
    )
    script.chmod(0o755)
    with dirs.provider() as provider:
        provider.preflight([spec_of()])
    monkeypatch.setenv("PATH", str(bin_), prepend=":")
    with (
        dirs.provider() as provider,
        pytest.raises(UnavailableError, match=r"is too old \(version 19\.03\.15\)") as caught,
    ):
        provider.preflight([spec_of()])
    assert "20.10" in caught.value.remedy


@pytest.fixture
def small_disk(dirs: Directories, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on a 4 MB file system."""
    disk = dirs.tree("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.mounts
def test_full_disk_is_reported_before_and_during_preparation(dirs: Directories, small_disk: Path) -> None:
    """F09, H13: a full disk is reported before a run; during preparation it is an infrastructure error.

    It is not a setup error of the task, and partial results are removed.
    """
    with dirs.provider() as provider:
        with pytest.raises(UnavailableError, match=rf"the disk is full: \d MiB free in {small_disk}") as caught:
            provider.preflight([spec_of()])
        assert "agentbench docker prune" in caught.value.remedy
        pristine = dirs.tree("large")
        (pristine / "file").write_bytes(bytes(8 << 20))
        with pytest.raises(SandboxError) as broken:
            provider.prepare(spec_of(), pristine, RecordingLog(), Deadline(SOON))
        assert not isinstance(broken.value, SetupError)
        assert "No space left" in str(broken.value)
    assert shutil.disk_usage(small_disk).used < 1 << 20


def test_more_memory_than_the_machine_has_is_refused(dirs: Directories) -> None:
    """F09: preflight refuses a memory limit that exceeds the machine's memory."""
    with (
        dirs.provider() as provider,
        pytest.raises(UnavailableError, match=r"requires 9999999 MiB of memory") as caught,
    ):
        provider.preflight([spec_of(mem_limit_mb=9_999_999)])
    assert "environment.mem_limit_mb" in caught.value.remedy


# --- F31: images change ------------------------------------------------------------------------------------------


@pytest.mark.release
def test_run_keeps_its_image_after_the_tag_moves(dirs: Directories, name: str) -> None:
    """F31: a run keeps the image that its name first resolved to; the next run has a new digest."""
    with dirs.provider() as provider:
        provider.preflight([spec_of(docker_image=name)])
        environment = dirs.prepare(provider, spec_of(docker_image=name))
        other = retag(name)
        for each in (environment, dirs.prepare(provider, spec_of(docker_image=name, pids_limit=100))):
            assert dirs.ask(each, "echo [$RETAGGED]") == "[]\n"
            assert each.facts["base_image_id"] == image_id(RUNNER)
    with dirs.provider() as provider:
        later = dirs.prepare(provider, spec_of(docker_image=name))
        assert dirs.ask(later, "echo [$RETAGGED]") == "[yes]\n"
        assert later.facts["base_image_id"] == other
    assert later.digest != environment.digest


@pytest.mark.long
def test_a_prepared_image_that_is_removed_is_made_again(dirs: Directories) -> None:
    """F31: a start from a removed image is an infrastructure error; the next preparation rebuilds the image."""
    spec = spec_of("touch /opt/venv/made")
    with dirs.provider() as provider:
        environment = dirs.prepare(provider, spec)
        asked("image", "rm", "--force", environment.facts["image_id"])
        with pytest.raises(SandboxError, match="No such image"):
            dirs.ask(environment, "true")
        again = dirs.prepare(provider, spec)
        assert again.facts["cache"] == "miss"
        assert dirs.ask(again, "ls /opt/venv/made") == "/opt/venv/made\n"
        assert dirs.prepare(provider, spec).facts["cache"].startswith("hit, prepared at ")


# --- F33: networks go --------------------------------------------------------------------------------------------


def networks(temporary: Path) -> list[str]:
    shown = asked("network", "ls", "--format", '{{.Name}} {{.Label "agentbench.owner"}}')
    return [line.split()[0] for line in shown.splitlines() if str(temporary) in line]


@pytest.mark.long
def test_removed_setup_network_is_a_sandbox_error(dirs: Directories) -> None:
    """F33: if the setup network is removed, the next setup fails with an error that names it."""
    with dirs.provider() as provider:
        dirs.prepare(provider, spec_of("true", network_policy="setup_only"))
        (network,) = networks(dirs.directory / "temporary")
        asked("network", "rm", network)
        with pytest.raises(SandboxError, match=f"network {network} not found") as caught:
            dirs.prepare(provider, spec_of("echo again", network_policy="setup_only"))
    assert not isinstance(caught.value, SetupError)


@pytest.mark.parametrize("method", ["preflight", "prepare"])
def test_missing_setup_network_is_named(dirs: Directories, method: str) -> None:
    """F33: preflight and setup name a ``setup_network`` that does not exist."""
    spec = spec_of("true", network_policy="setup_only")
    calls: dict[str, Callable[[DockerProvider], Any]] = {
        "preflight": lambda provider: provider.preflight([spec]),
        "prepare": lambda provider: dirs.prepare(provider, spec),
    }
    named = pytest.raises((UnavailableError, SandboxError), match=r"network '?agentbench-test-absent")
    with dirs.provider(setup_network="agentbench-test-absent") as provider, named:
        calls[method](provider)
