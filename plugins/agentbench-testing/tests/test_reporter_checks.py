"""Each check of reporters fails on a reporter that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import ReporterConformance
from agentbench_testing.checks.reporter import RUNS, Stage

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_reporters.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(ReporterConformance) if name.startswith("test_"))

TestPages = BROKEN["on"](BROKEN["Pages"])
"""The reporter that the doubles derive from passes all checks."""


@pytest.fixture(autouse=True)
def _end_of_lingering() -> Iterator[None]:
    BROKEN["LEFT"].clear()
    yield
    BROKEN["LEFT"].set()


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(
    check: str,
    double: type | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The failure is an assertion of the check; a check with several kinds of runs fails for some."""
    assert double is not None, f"no double for {check}"
    checks = BROKEN["on"](double)()
    given = {"monkeypatch": monkeypatch, "capfd": capfd, "stage": Stage(tmp_path, checks.make_reporter)}
    method = getattr(checks, check)
    wanted = inspect.signature(method).parameters

    def tried() -> None:
        for kind in RUNS if "kind" in wanted else ("",):
            method(**{name: kind if name == "kind" else given[name] for name in wanted})

    with pytest.raises(AssertionError):
        tried()


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ReporterConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    with pytest.raises(NotImplementedError, match="ReporterConformance must define how its reporter is created"):
        ReporterConformance.make_reporter()
