"""Each check of agents that wrap a program fails on an agent that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import Workbench, WrappedAgentConformance, open_workbench

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_wrapped.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(WrappedAgentConformance) if name.startswith("test_"))

TestCareful = BROKEN["on"](BROKEN["CarefulWrapper"])
"""The agent that the doubles derive from passes all checks."""


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_fails_on_its_double(check: str, workbench: Workbench, capfd: pytest.CaptureFixture[str]) -> None:
    """The failure is an assertion of the check."""
    known: dict[str, Any] = {"workbench": workbench, "capfd": capfd}
    method = getattr(BROKEN["on"](DOUBLES[check])(), check)
    with pytest.raises(AssertionError):
        method(**{name: known[name] for name in inspect.signature(method).parameters})


def test_missing_hook_is_named() -> None:
    """The error names the required hook."""
    with pytest.raises(NotImplementedError, match="WrappedAgentConformance must define how an agent"):
        WrappedAgentConformance.make_agent()
