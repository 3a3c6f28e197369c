"""Each check of scorers fails on a scorer that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import ScorerConformance, Workbench, open_workbench
from agentbench_testing.checks.scorer.stage import ScorerStage

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_scorers.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(ScorerConformance) if name.startswith("test_"))

TestCareful = BROKEN["on"](BROKEN["Careful"])
"""The scorer that the doubles derive from passes all checks."""


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made
    BROKEN["LEFT"].set()


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(
    check: str, double: type | None, workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is an assertion of the check."""
    assert double is not None, f"no double for {check}"
    checks = BROKEN["on"](double)
    given = {"stage": ScorerStage(workbench, checks), "tmp_path": tmp_path, "monkeypatch": monkeypatch}
    method = getattr(checks(), check)
    with pytest.raises(AssertionError):
        method(**{name: given[name] for name in inspect.signature(method).parameters})


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_no_check_replaces_another_of_the_same_name() -> None:
    """A second check of the same name would silently replace the first."""
    written = [name for kind in ScorerConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ScorerConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    with pytest.raises(NotImplementedError, match="ScorerConformance must define how its scorer is created"):
        ScorerConformance.make_scorer()
