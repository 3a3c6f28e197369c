"""Each check of sandboxes with programs fails on a sandbox that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AgentBenchError, SandboxProvider
from agentbench_local.plugin import LocalOptions
from agentbench_local.preparation import Preparation
from agentbench_local.provider import LocalProvider
from agentbench_testing import (
    IsolatedProgramSandboxConformance,
    ProgramSandboxConformance,
    ProviderDouble,
    Stage,
)
from agentbench_testing.checks.sandbox.program_stage import serving

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_programs.py")))
DOUBLES, CORRECT = BROKEN["DOUBLES"], BROKEN["CORRECT"]
CHECKS = sorted(name for name in dir(IsolatedProgramSandboxConformance) if name.startswith("test_"))

Run = Callable[[str, type, float], None]


@pytest.fixture
def run_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a check on a double around ``local``."""
    monkeypatch.setattr(Preparation, "_make_venv", lambda _: None)  # creating one takes most of a second

    def run(check: str, double: type, seconds: float) -> None:
        class OnDoubles(IsolatedProgramSandboxConformance):
            patience = seconds

            @classmethod
            def make_provider(cls) -> SandboxProvider:
                return ProviderDouble.around(double)(LocalProvider(LocalOptions()))

        (tmp_path / "stage").mkdir()
        with Stage(OnDoubles, tmp_path / "stage").open() as stage, serving(stage) as served:
            known = {"stage": stage, "served": served}
            method = getattr(OnDoubles(), check)
            method(**{name: known[name] for name in inspect.signature(method).parameters})

    return run


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_fails_on_its_double(check: str, run_check: Run) -> None:
    """The failure is an assertion of the check, or an error of the sandbox."""
    with pytest.raises((AssertionError, pytest.fail.Exception, AgentBenchError)):
        run_check(check, DOUBLES[check], 1.0)


@pytest.mark.parametrize("double", CORRECT)
@pytest.mark.parametrize("check", [name for name in CHECKS if hasattr(ProgramSandboxConformance, name)])
def test_correct_doubles(check: str, double: str, run_check: Run) -> None:
    """Doubles fail only because of what is broken in them."""
    run_check(check, CORRECT[double], 20.0)
