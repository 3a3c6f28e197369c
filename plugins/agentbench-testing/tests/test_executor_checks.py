"""Each check of executors fails on an executor that is broken in that respect, and on no other."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Executor, NoOptions
from agentbench_core.builtin.threads import Threads
from agentbench_testing import ExecutorConformance
from agentbench_testing.checks.executor import checks as checks_of_executors, stage as stages
from agentbench_testing.checks.executor.stage import Stage

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_executors.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(ExecutorConformance) if name.startswith("test_"))
EVERY = [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]]

TestPlaces = BROKEN["on"](BROKEN["Places"])
"""The executor that the doubles derive from passes all checks."""


class TestThreads(ExecutorConformance):
    """The built-in executor passes all checks."""

    @classmethod
    def make_executor(cls) -> Executor:
        return Threads(NoOptions())


@pytest.fixture(autouse=True)
def _end_of_litter() -> Iterator[None]:
    BROKEN["LEFT"].clear()
    yield
    BROKEN["end"]()


def run_check(check: str, checks: ExecutorConformance) -> None:
    """Run a check with all of its parameters."""
    method = getattr(checks, check)
    for more in ({"attempts": 0}, {"attempts": 1}) if "attempts" in inspect.signature(method).parameters else ({},):
        stage = Stage(checks.make_executor, checks.patience)
        try:
            method(stage=stage, **more)
        finally:
            stage.end()


@pytest.mark.parametrize(("check", "double"), EVERY)
def test_each_check_fails_on_its_double(check: str, double: type | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is an assertion of the check."""
    assert double is not None, f"no double for {check}"
    # The events that these checks wait for never happen on a double; all others happen within milliseconds.
    monkeypatch.setattr(checks_of_executors, "STOP_SEC", 1.0)
    monkeypatch.setattr(stages, "_END_SEC", 0.5)
    with pytest.raises(AssertionError):
        run_check(check, BROKEN["on"](double, 1.0)())


@pytest.mark.parametrize(("violated", "double"), EVERY)
def test_no_other_check_fails_on_a_double(violated: str, double: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing check therefore says what is wrong."""
    monkeypatch.setattr(checks_of_executors, "HOLD_SEC", 0.2)  # doubles that do not wait at all return at once
    for check in CHECKS:
        if check != violated:
            run_check(check, BROKEN["on"](double)())


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ExecutorConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    """The error says which class lacks the hook."""
    with pytest.raises(NotImplementedError, match="ExecutorConformance must define how its executor is created"):
        ExecutorConformance.make_executor()
