"""The checks of providers of models: each fails on a provider that is broken in its respect, and only there."""

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
    """The scripted model of this kit does what every provider must do."""

    @classmethod
    @contextlib.contextmanager
    def answering(cls, planned: Sequence[Planned]) -> Iterator[LLM]:
        answers = {each.mark: each.answer for each in planned}
        yield ScriptedLLM(lambda request: answers[request.messages[-1].content.rstrip(".").split()[-1]])


TestCareful = BROKEN["on"](BROKEN["CarefulLLM"], RemoteLLMConformance.patience)
"""The provider that the doubles are made from does all that one with a server must do."""


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(check: str, double: type | None) -> None:
    """It fails by what it asserts, or by what the provider raises."""
    assert double is not None, f"there is no double for {check}"
    broken = BROKEN["on"](double)()
    with pytest.raises(
        (AssertionError, pytest.fail.Exception, AgentBenchError, TypeError, LookupError, OSError, RuntimeError)
    ):
        getattr(broken, check)()


def test_every_double_has_a_check() -> None:
    """None is left over from a check that has another name now."""
    assert sorted(DOUBLES) == CHECKS


def test_there_are_as_many_checks_as_were_written() -> None:
    """Two rooms with one name would lose a check silently."""
    written = [name for kind in RemoteLLMConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS
    assert sum(hasattr(LLMConformance, name) for name in CHECKS) >= 20


def test_every_check_says_what_is_asked_for() -> None:
    """The kit is read by plugin authors."""
    assert [check for check in CHECKS if not getattr(RemoteLLMConformance, check).__doc__] == []


def test_classes_without_hooks_say_so() -> None:
    """Who forgets the hook that must be given hears its name, and no check is skipped for it."""
    with pytest.raises(
        NotImplementedError, match="LLMConformance must define how its provider returns scripted responses"
    ):
        LLMConformance().test_words()
    with pytest.raises(NotImplementedError, match="RemoteLLMConformance must define how its provider is served"):
        RemoteLLMConformance().test_words()
