"""Each check of forwarded requests fails on a provider that is broken in that respect."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AgentBenchError
from agentbench_testing import ForwardingLLMConformance

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_forwarders.py")))
DOUBLES = BROKEN["DOUBLES"]
PAIRS = (*DOUBLES.items(), *BROKEN["MORE"])
CHECKS = sorted(name for name in dir(ForwardingLLMConformance) if name.startswith("test_"))

TestCareful = BROKEN["on"](BROKEN["CarefulForwarder"], ForwardingLLMConformance.patience)
"""The provider that the doubles derive from passes all checks."""


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(check: str, double: type | None) -> None:
    """The failure is an assertion of the check, or an exception of the provider."""
    assert double is not None, f"no double for {check}"
    broken = BROKEN["on"](double)()
    with pytest.raises((AssertionError, pytest.fail.Exception, AgentBenchError, ValueError)):
        getattr(broken, check)()


@pytest.mark.parametrize("double", sorted({double for _, double in PAIRS}, key=lambda it: it.__name__))
def test_each_double_fails_only_its_own_checks(double: type) -> None:
    """All other checks pass, except those that rest on the same thing."""
    failed = []
    for check in CHECKS:
        try:
            getattr(BROKEN["on"](double)(), check)()
        except (AssertionError, pytest.fail.Exception, AgentBenchError, ValueError):
            failed.append(check)
    meant = {check for check, broken in PAIRS if broken is double}
    assert meant <= set(failed) <= meant | BROKEN["ALSO"].get(double.__name__, set())


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ForwardingLLMConformance, check).__doc__] == []
