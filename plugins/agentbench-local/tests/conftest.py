"""Fixtures of the sandbox ``local``. They start real processes."""

from __future__ import annotations

import platform
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Deadline, EnvironmentSpec
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_local.environment import LocalEnvironment
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_local.sandbox import LocalSandbox
from agentbench_testing import RecordingLog
from agentbench_testing.fixtures import make_task as make_task, run_agentbench as run_agentbench

SOON = 60.0
"""Seconds: much longer than anything here takes, even on a slow machine."""

Make = Callable[..., LocalEnvironment]
SpecOf = Callable[..., EnvironmentSpec]


@attrs.frozen
class Mark:
    """A variable that identifies the processes of one test."""

    value: str = attrs.field(factory=lambda: secrets.token_hex(8))

    @property
    def env(self) -> dict[str, str]:
        return {"AGENTBENCH_TEST_MARK": self.value}

    def alive(self) -> list[int]:
        """The processes that have it."""
        wanted = f"AGENTBENCH_TEST_MARK={self.value}".encode()
        found = []
        for place in Path("/proc").iterdir():
            try:
                if place.name.isdigit() and wanted in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
        return found

    def wait_for(self, count: int) -> None:
        """Wait until this number of processes is alive."""
        give_up_at = time.monotonic() + SOON
        while len(self.alive()) != count:
            assert time.monotonic() < give_up_at, f"{len(self.alive())} processes instead of {count}"
            time.sleep(0.01)


Until = Callable[..., Deadline]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@pytest.fixture
def until() -> Until:
    """Makes a deadline that expires once some files exist, however slow the command is."""
    return lambda *signs: Deadline(SOON, clock=lambda: SOON if all(sign.exists() for sign in signs) else 0.0)


@pytest.fixture
def mark() -> Mark:
    return Mark()


@pytest.fixture
def log() -> RecordingLog:
    return RecordingLog()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files of this test only, so that no others are swept."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def provider(scratch: Path) -> Iterator[LocalProvider]:
    provider = LocalProvider(LocalOptions())
    yield provider
    provider.close()
    assert not list(scratch.iterdir()), "the provider left files behind"


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    tree = tmp_path / "pristine"
    (tree / "pkg").mkdir(parents=True)
    (tree / "pkg" / "module.py").write_text("ANSWER = 41\n")
    (tree / "link").symlink_to("pkg/module.py")
    return tree


@pytest.fixture(name="spec_of")
def spec_of_fixture() -> SpecOf:
    return spec_of


def spec_of(*commands: str, capture: tuple[str, ...] = (), **settings: Any) -> EnvironmentSpec:
    """A spec for the Python that runs the tests."""
    settings.setdefault("python", ".".join(platform.python_version_tuple()[:2]))
    return EnvironmentSpec(
        commit="0" * 40,
        settings=EnvironmentSettings(**settings),
        setup=Setup(commands=commands, capture=capture),
    )


@pytest.fixture
def make(provider: LocalProvider, pristine: Path, log: RecordingLog) -> Make:
    """Prepares an environment."""

    def prepare(*commands: str, capture: tuple[str, ...] = (), **settings: Any) -> LocalEnvironment:
        return provider.prepare(spec_of(*commands, capture=capture, **settings), pristine, log, Deadline(60))

    return prepare


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


@pytest.fixture
def sandbox(make: Make, workspace: Path) -> Iterator[LocalSandbox]:
    sandbox = make().start(workspace, read_only=False, network=False, deadline=Deadline(SOON))
    yield sandbox
    sandbox.close()
