"""Engines that are too old or full, and images and networks that change or go while a provider works with them."""

from __future__ import annotations

import contextlib
import json
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
class Place:
    """Temporary files and a cache of one test; trees to prepare and to work in."""

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
        """What a command prints in a start of its own. Raises what the start raises."""
        result = environment.run_once(Command(command), self.tree(f"fork-{secrets.token_hex(3)}"), Deadline(SOON))
        assert result.ok, result
        return result.stdout.text


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where a test works. Afterwards the engine has nothing of it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Place(tmp_path)
    left = ["--filter", "label=agentbench.owner", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
    for kind in (("ps", "--all"), ("network", "ls")):
        assert str(temporary) not in asked(*kind, *left)
    for image in asked("image", "ls", "--quiet", "--no-trunc", "--filter", "label=agentbench.owner").split():
        with contextlib.suppress(subprocess.CalledProcessError):  # somebody else's, and just removed
            if json.loads(asked("inspect", image))[0]["Config"]["Labels"]["agentbench.owner"].startswith(
                str(temporary)
            ):
                asked("image", "rm", "--force", image)
    assert list(temporary.iterdir()) == []


def asked(*arguments: str) -> str:
    """What ``docker`` prints."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def spec_of(*commands: str, **settings: Any) -> EnvironmentSpec:
    chosen = {"network_policy": "none", "mem_limit_mb": 512, **settings}
    return EnvironmentSpec(
        commit="0" * 40, settings=EnvironmentSettings(**chosen), setup=Setup(commands=commands, capture=())
    )


@pytest.fixture
def name() -> Iterator[str]:
    """A name of this test's own for images."""
    name = f"agentbench-test/{secrets.token_hex(6)}:1"
    asked("tag", RUNNER, name)
    yield name
    asked("image", "rm", "--force", name)


def image_id(name: str) -> str:
    return asked("inspect", "--format", "{{.Id}}", name).strip()


def retag(name: str) -> str:
    """Let a name mean another image; the id of that one."""
    container = asked("create", RUNNER, "true").strip()
    try:
        return asked("commit", "--change", "ENV RETAGGED=yes", container, name).strip()
    finally:
        asked("rm", container)


# --- F09: an engine that cannot be used --------------------------------------------------------------------------


def test_an_engine_that_is_too_old_is_refused(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """F09: the engine's version is read, and the remedy names the oldest one that will do."""
    real, bin_ = shutil.which("docker"), here.tree("bin")
    version = asked("version", "--format", "{{.Server.Version}}").strip()
    script = bin_ / "docker"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in\n'
        f'*\' version \'*) {real} "$@" | sed \'s/"{version}"/"19.03.15"/g\' ;;\n'
        f'*) exec {real} "$@" ;;\nesac\n'
    )
    script.chmod(0o755)
    with here.provider() as provider:
        provider.preflight([spec_of()])
    monkeypatch.setenv("PATH", str(bin_), prepend=":")
    with (
        here.provider() as provider,
        pytest.raises(UnavailableError, match=r"is too old \(version 19\.03\.15\)") as caught,
    ):
        provider.preflight([spec_of()])
    assert "20.10" in caught.value.remedy


@pytest.fixture
def small_disk(here: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on a file system of four megabytes."""
    disk = here.tree("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.mounts
def test_a_full_disk_is_found_out_before_and_while_preparing(here: Place, small_disk: Path) -> None:
    """F09, H13: before a run it is said with what to do; while preparing it is the machinery's fault, not the task's.

    What was begun is removed.
    """
    with here.provider() as provider:
        with pytest.raises(UnavailableError, match=rf"the disk is full: \d MiB free in {small_disk}") as caught:
            provider.preflight([spec_of()])
        assert "agentbench docker prune" in caught.value.remedy
        pristine = here.tree("large")
        (pristine / "file").write_bytes(bytes(8 << 20))
        with pytest.raises(SandboxError) as broken:
            provider.prepare(spec_of(), pristine, RecordingLog(), Deadline(SOON))
        assert not isinstance(broken.value, SetupError)
        assert "No space left" in str(broken.value)
    assert shutil.disk_usage(small_disk).used < 1 << 20


def test_more_memory_than_the_machine_has_is_refused(here: Place) -> None:
    """F09: a limit that cannot be kept would be no limit; it is said before a run."""
    with (
        here.provider() as provider,
        pytest.raises(UnavailableError, match=r"requires 9999999 MiB of memory") as caught,
    ):
        provider.preflight([spec_of(mem_limit_mb=9_999_999)])
    assert "environment.mem_limit_mb" in caught.value.remedy


# --- F31: images change ------------------------------------------------------------------------------------------


def test_an_image_is_pinned_however_its_name_wanders(here: Place, name: str) -> None:
    """F31: what a name meant at first counts for a whole run; the next run prepares anew, and has another digest."""
    with here.provider() as provider:
        provider.preflight([spec_of(docker_image=name)])
        environment = here.prepare(provider, spec_of(docker_image=name))
        other = retag(name)
        for each in (environment, here.prepare(provider, spec_of(docker_image=name, pids_limit=100))):
            assert here.ask(each, "echo [$RETAGGED]") == "[]\n"
            assert each.facts["base_image_id"] == image_id(RUNNER)
    with here.provider() as provider:
        later = here.prepare(provider, spec_of(docker_image=name))
        assert here.ask(later, "echo [$RETAGGED]") == "[yes]\n"
        assert later.facts["base_image_id"] == other
    assert later.digest != environment.digest


def test_a_prepared_image_that_is_removed_is_made_again(here: Place) -> None:
    """F31: starts of an environment whose image is gone are the machinery's failure; the next preparation heals it."""
    spec = spec_of("touch /opt/venv/made")
    with here.provider() as provider:
        environment = here.prepare(provider, spec)
        assert here.ask(environment, "ls /opt/venv/made") == "/opt/venv/made\n"
        asked("image", "rm", "--force", environment.facts["image_id"])
        with pytest.raises(SandboxError, match="No such image"):
            here.ask(environment, "true")
        again = here.prepare(provider, spec)
        assert again.facts["cache"] == "miss"
        assert here.ask(again, "ls /opt/venv/made") == "/opt/venv/made\n"
        assert here.prepare(provider, spec).facts["cache"].startswith("hit, prepared at ")


# --- F33: networks go --------------------------------------------------------------------------------------------


def networks(temporary: Path) -> list[str]:
    shown = asked("network", "ls", "--format", '{{.Name}} {{.Label "agentbench.owner"}}')
    return [line.split()[0] for line in shown.splitlines() if str(temporary) in line]


def test_a_network_that_is_gone_is_the_machinerys_failure(here: Place) -> None:
    """F33: somebody removes the network of set-ups: the next set-up says which one is missing."""
    with here.provider() as provider:
        here.prepare(provider, spec_of("true", network_policy="setup_only"))
        (network,) = networks(here.directory / "temporary")
        asked("network", "rm", network)
        with pytest.raises(SandboxError, match=f"network {network} not found") as caught:
            here.prepare(provider, spec_of("echo again", network_policy="setup_only"))
    assert not isinstance(caught.value, SetupError)


@pytest.mark.parametrize("method", ["preflight", "prepare"])
def test_a_network_that_never_was_is_named(here: Place, method: str) -> None:
    """F33: ``setup_network`` that does not exist: a message with its name, from the check and from the set-up."""
    spec = spec_of("true", network_policy="setup_only")
    calls: dict[str, Callable[[DockerProvider], Any]] = {
        "preflight": lambda provider: provider.preflight([spec]),
        "prepare": lambda provider: here.prepare(provider, spec),
    }
    named = pytest.raises((UnavailableError, SandboxError), match=r"network '?agentbench-test-absent")
    with here.provider(setup_network="agentbench-test-absent") as provider, named:
        calls[method](provider)
