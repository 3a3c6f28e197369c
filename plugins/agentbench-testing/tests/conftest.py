"""The fixtures of the kit, in an empty directory and with a separate cache for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_local import launcher
from agentbench_local.process import Command, Order, Supervision
from agentbench_testing.fixtures import (
    agentbench as agentbench,
    make_suite as make_suite,
    make_task as make_task,
    run_agentbench as run_agentbench,
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@pytest.fixture(scope="session")
def _supervision() -> Iterator[type[Supervision]]:
    """A replacement for the class, whose instances share one process that starts commands."""
    supervision = Supervision()

    class Shared(Supervision):
        def start(self, order: Order) -> Command:
            return supervision.start(order)

    yield Shared
    supervision.close()


@pytest.fixture(autouse=True)
def _start_supervisors_once(_supervision: type[Supervision], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process that starts commands in the sandbox `local`: each check would wait for a new interpreter."""
    monkeypatch.setattr(launcher, "Supervision", _supervision)
