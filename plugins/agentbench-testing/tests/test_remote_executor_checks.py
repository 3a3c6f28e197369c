"""Each check of executors with workers fails on an executor that is broken in that respect."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import RemoteExecutorConformance
from agentbench_testing.checks.executor import remote as checks_with_workers
from agentbench_testing.checks.executor.remote_stage import RemoteStage

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_remote_executors.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(RemoteExecutorConformance) if name.startswith("test_"))

TestPipes = pytest.mark.release(BROKEN["on"](BROKEN["Pipes"]))
"""The executor that the doubles derive from passes all checks."""


@pytest.fixture(autouse=True)
def _end_of_litter() -> Iterator[None]:
    BROKEN["LEFT"].clear()
    yield
    BROKEN["end"]()


@pytest.mark.release
@pytest.mark.parametrize("check", CHECKS)
def test_each_check_fails_on_its_double(check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is an assertion of the check."""
    monkeypatch.setattr(checks_with_workers, "STOP_SEC", 2.0)  # otherwise, the deaf double takes 10 s
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checks = BROKEN["on"](DOUBLES[check], 15.0)()
    with RemoteStage.opened(checks.make_executor, checks.patience, tmp_path) as stage:
        with pytest.raises(AssertionError):
            getattr(checks, check)(stage)
        BROKEN["LEFT"].set()


def test_every_double_has_a_check() -> None:
    """Every check has a double, and no double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(RemoteExecutorConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    """The error says which class lacks the hook."""
    with pytest.raises(NotImplementedError, match="Conformance must define how its executor is created"):
        RemoteExecutorConformance.make_executor()
