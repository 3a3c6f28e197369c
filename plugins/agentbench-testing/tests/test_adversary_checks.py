"""Each check of adversarial agents fails on an agent that is broken in that respect."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import AdversaryConformance, Workbench, open_workbench

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_adversaries.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(AdversaryConformance) if name.startswith("test_"))

TestEqual = BROKEN["on"](BROKEN["Equal"])
"""The agent that the doubles derive from passes all checks."""


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(check: str, double: type | None, workbench: Workbench) -> None:
    """The failure is an assertion of the check."""
    assert double is not None, f"no double for {check}"
    with pytest.raises(AssertionError):
        getattr(BROKEN["on"](double)(), check)(workbench=workbench)


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(AdversaryConformance, check).__doc__] == []
