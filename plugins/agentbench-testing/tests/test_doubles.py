"""Each check of sandboxes fails on a sandbox that is broken in that respect."""

from __future__ import annotations

import contextlib
import inspect
import runpy
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AgentBenchError, SandboxProvider
from agentbench_local.plugin import LocalOptions
from agentbench_local.preparation import Preparation
from agentbench_local.provider import LocalProvider
from agentbench_testing import IsolatedSandboxConformance, ProviderDouble, SandboxConformance, SandboxDouble, Stage
from agentbench_testing.doubles.observing import pulse

CHECKS = sorted(name for name in dir(IsolatedSandboxConformance) if name.startswith("test_"))
DOUBLES: dict[str, type] = {
    check: double
    for path in sorted(Path(__file__).parent.glob("doubles_*.py"))
    for check, double in runpy.run_path(str(path))["DOUBLES"].items()
}
INSTALLS = "test_what_setup_installs_is_in_every_start"
"""The only check that needs a virtual environment: it would otherwise install into that of the tests."""


@pytest.fixture
def stage_of(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes the stage of a check on doubles around ``local``, with short timeouts."""
    made: list[LocalProvider] = []
    with pytest.MonkeyPatch.context() as patched:

        def stage(double: type, *, light: bool) -> Stage:
            if light:  # creating a virtual environment takes most of a second
                patched.setattr(Preparation, "_make_venv", lambda _: None)

            class OnDoubles(IsolatedSandboxConformance):
                patience = 1.0

                @classmethod
                def make_provider(cls) -> SandboxProvider:
                    made.append(LocalProvider(LocalOptions()))
                    return ProviderDouble.around(double)(made[-1])

            (tmp_path / "stage").mkdir()
            return Stage(OnDoubles, tmp_path / "stage")

        yield stage
        for provider in made:
            provider.close()


@pytest.fixture
def ready(
    stage_of: Callable[..., Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, type], Callable[[], None]]]:
    """Makes a check ready to run on a double."""
    with contextlib.ExitStack() as stack:

        def make_variant(check: str, double: type) -> Callable[[], None]:
            stage = stack.enter_context(stage_of(double, light=check != INSTALLS).open())
            known: dict[str, Any] = {"stage": stage, "tmp_path": tmp_path, "monkeypatch": monkeypatch}
            if check != INSTALLS:
                known["shared"] = stage.shared  # created here, so that its creation cannot fail the check
            method = getattr(stage.hooks(), check)
            return partial(method, **{name: known[name] for name in inspect.signature(method).parameters})

        yield make_variant


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_fails_on_its_double(check: str, ready: Callable[[str, type], Callable[[], None]]) -> None:
    """The failure is an assertion of the check, or an error of the sandbox."""
    assert check in DOUBLES, f"no double for {check}"
    run = ready(check, DOUBLES[check])
    with pytest.raises((AssertionError, pytest.fail.Exception, AgentBenchError)):
        run()


@pytest.mark.parametrize(
    "check",
    [
        *("test_a_command_that_succeeds", "test_a_directory_below_the_workspace", "test_variables_of_a_call"),
        *("test_files_are_those_of_commands", "test_closing_twice", "test_setup_is_logged", "test_once_inputs"),
        *("test_once_results", "test_captures_become_facts", "test_preflight", "test_nothing_new_after_closing"),
    ],
)
def test_correct_double_passes(check: str, ready: Callable[[str, type], Callable[[], None]]) -> None:
    """It passes, so a double fails a check only because of what is broken in it."""
    ready(check, SandboxDouble)()


def test_a_survivor_creates_nothing_after_its_check(tmp_path: Path) -> None:
    """A process that outlives its check cannot disturb the removal of the workspace."""
    with pulse(tmp_path, patience=20.0) as beat:
        survivor = subprocess.Popen(["sh", "-c", beat.script], cwd=tmp_path)
        assert beat.lives()
    assert survivor.wait(timeout=20.0) == 0
    assert list(tmp_path.iterdir()) == []


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_no_check_replaces_another_of_the_same_name() -> None:
    """A second check of the same name would silently replace the first."""
    written = [name for kind in IsolatedSandboxConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS
    assert sum(hasattr(SandboxConformance, name) for name in CHECKS) >= 40


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(IsolatedSandboxConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    """The error names the required hook."""
    with pytest.raises(NotImplementedError, match="SandboxConformance must define how its provider is created"):
        SandboxConformance.make_provider()
