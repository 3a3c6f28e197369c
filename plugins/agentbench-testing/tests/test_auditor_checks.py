"""Each check of auditors fails on an auditor that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import AuditorConformance, Workbench, open_workbench
from agentbench_testing.checks.auditor import ATTEMPTS, Stage

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_auditors.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(AuditorConformance) if name.startswith("test_"))

TestWatchful = BROKEN["on"](BROKEN["Watchful"])
"""The auditor that the doubles derive from passes all checks."""


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


@pytest.fixture(autouse=True)
def _give_back() -> Iterator[None]:
    BROKEN["LEFT"].clear()
    yield
    BROKEN["LEFT"].set()
    while BROKEN["KEPT"]:
        BROKEN["KEPT"].pop().__exit__(None, None, None)


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(
    check: str,
    double: type | None,
    workbench: Workbench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The failure is an assertion of the check; a check with several kinds of attempts fails for some."""
    assert double is not None, f"no double for {check}"
    given = {
        "monkeypatch": monkeypatch,
        "capfd": capfd,
        "stage": Stage(tmp_path),
        "workbench": workbench,
        "solution": True,
    }
    method = getattr(BROKEN["on"](double)(), check)
    wanted = inspect.signature(method).parameters

    def tried() -> None:
        for kind in ATTEMPTS if "kind" in wanted else ("",):
            method(**{name: kind if name == "kind" else given[name] for name in wanted})

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        tried()


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(AuditorConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    with pytest.raises(NotImplementedError, match="AuditorConformance must define how its auditor is created"):
        AuditorConformance.make_auditor()
