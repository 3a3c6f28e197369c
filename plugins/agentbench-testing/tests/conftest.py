"""The fixtures of the kit, in an empty directory and with a separate cache for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.fixture(autouse=True)
def _one_supervisor(one_supervisor: None) -> None:
    """Runs of these tests share the process that starts commands."""
