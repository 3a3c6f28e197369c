"""Each check of agents fails on an agent that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Message, ToolCall
from agentbench_testing import AgentConformance, ModelAgentConformance, Workbench, open_workbench
from agentbench_testing.checks.agent.stage import unpaired

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_agents.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(ModelAgentConformance) if name.startswith("test_"))

TestCareful = BROKEN["on"](BROKEN["CarefulAgent"])
"""The agent that the doubles derive from passes all checks."""


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(
    check: str,
    double: type | None,
    workbench: Workbench,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure is an assertion of the check."""
    assert double is not None, f"no double for {check}"
    monkeypatch.delenv("BROKEN_AGENT", raising=False)
    monkeypatch.setattr(BROKEN["SharesItsMessages"], "shared", [])
    monkeypatch.setattr(BROKEN["Learns"], "known", set())
    known: dict[str, Any] = {"workbench": workbench, "capfd": capfd, "tmp_path": tmp_path, "monkeypatch": monkeypatch}
    method = getattr(BROKEN["on"](double)(), check)
    try:
        with pytest.raises(AssertionError):
            method(**{name: known[name] for name in inspect.signature(method).parameters})
    finally:
        monkeypatch.delenv("BROKEN_AGENT", raising=False)


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_no_check_replaces_another_of_the_same_name() -> None:
    """A second check of the same name would silently replace the first."""
    written = [name for kind in ModelAgentConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS
    assert sum(hasattr(AgentConformance, name) for name in CHECKS) >= 10


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ModelAgentConformance, check).__doc__] == []


def test_missing_hook_is_named() -> None:
    """The error names the required hook."""
    with pytest.raises(NotImplementedError, match="AgentConformance must define how its agent is created"):
        AgentConformance.make_agent()


def said(*ids: str) -> Message:
    return Message(role="assistant", tool_calls=tuple(ToolCall(tool="x", arguments={}, id=id_) for id_ in ids))


def result(id_: str) -> Message:
    return Message(role="tool", tool_call_id=id_)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], ""),
        ([said("a", "b"), result("a"), result("b"), said("c"), result("c")], ""),
        ([said("a")], "there is no result for 'a'"),
        ([said("a"), Message(role="user"), result("a")], "there is no result for 'a' before the next message"),
        ([said("a"), said("b"), result("b")], "there is no result for 'a' before the next message"),
        (
            [said("a", "b"), result("b"), result("a")],
            "there is a result for 'b', which was not requested at that point",
        ),
        ([said("a"), result("a"), result("a")], "there is a result for 'a', which was not requested at that point"),
    ],
)
def test_calls_without_results_are_found(messages: list[Message], problem: str) -> None:
    """Also results without calls."""
    assert unpaired(messages) == problem
