"""Each check of model providers fails on a provider that is broken in that respect."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import LLM, AgentBenchError
from agentbench_testing import LLMConformance, Planned, RemoteLLMConformance, ScriptedLLM

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_llms.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(RemoteLLMConformance) if name.startswith("test_"))


class TestScripted(LLMConformance):
    """The scripted model of this kit passes the checks of all providers."""

    @classmethod
    @contextlib.contextmanager
    def answering(cls, planned: Sequence[Planned]) -> Iterator[LLM]:
        answers = {each.mark: each.answer for each in planned}
        yield ScriptedLLM(lambda request: answers[request.messages[-1].content.rstrip(".").split()[-1]])


TestCareful = BROKEN["on"](BROKEN["CarefulLLM"], RemoteLLMConformance.patience)
"""The provider that the doubles derive from passes all checks."""


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(check: str, double: type | None) -> None:
    """The failure is an assertion of the check, or an exception of the provider."""
    assert double is not None, f"no double for {check}"
    broken = BROKEN["on"](double)()
    with pytest.raises(
        (AssertionError, pytest.fail.Exception, AgentBenchError, TypeError, LookupError, OSError, RuntimeError)
    ):
        getattr(broken, check)()


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_no_check_replaces_another_of_the_same_name() -> None:
    """A second check of the same name would silently replace the first."""
    written = [name for kind in RemoteLLMConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS
    assert sum(hasattr(LLMConformance, name) for name in CHECKS) >= 20


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(RemoteLLMConformance, check).__doc__] == []


def test_missing_hooks_are_named() -> None:
    """The error names the required hook, and no check is skipped."""
    with pytest.raises(
        NotImplementedError, match="LLMConformance must define how its provider returns scripted responses"
    ):
        LLMConformance().test_words()
    with pytest.raises(NotImplementedError, match="RemoteLLMConformance must define how its provider is served"):
        RemoteLLMConformance().test_words()
