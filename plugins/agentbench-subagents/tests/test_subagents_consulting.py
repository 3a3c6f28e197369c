"""Roles that must submit a typed report, for any responses of the model."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from agentbench_core import (
    Budget,
    BudgetExceeded,
    Completion,
    LLMError,
    Prompt,
    RepairOptions,
    SubAgentRequest,
    ToolCall,
)
from agentbench_subagents.consulting import Consultation, Failure, Role
from agentbench_subagents.reports import CandidateFile, SearchReport, Snippet
from agentbench_testing import calls, says
from agentbench_testing.checks.agent.stage import unpaired

SEARCHER = Role(
    name="searcher",
    prompt=Prompt("p", "You search."),
    reads=True,
    report=SearchReport,
    purpose="Submit it.",
)
GOOD = {"files": [{"path": "a.py", "why": "it is there", "snippets": [{"first_line": 3, "text": "x = 1"}]}]}
REPORT = SearchReport(
    files=(CandidateFile(path="a.py", why="it is there", snippets=(Snippet(first_line=3, text="x = 1"),)),)
)
RULES = RepairOptions(tool_errors=3, idle_turns=2)


def submitted(arguments: Any = None, **more: Any) -> ToolCall:
    return ToolCall(tool="report", arguments=GOOD if arguments is None else arguments, **more)


def reading(path: str = "src/shop/cart.py") -> ToolCall:
    return ToolCall(tool="read_file", arguments={"path": path})


def consult(context: Any, *, steps: int = 5, tries: int = 3, accept: Callable[[Any], str] = lambda report: "") -> Any:
    child = context.delegate(
        SubAgentRequest(role="searcher", tools={"read_file", "list_files", "run"}, max_steps=steps)
    )
    return Consultation(SEARCHER, child, RULES, tries=tries, accept=accept)


def results(double: Any) -> list[str]:
    return [message.content for message in double.last_messages if message.role == "tool"]


def paired(double: Any) -> bool:
    """Every call is followed by its result."""
    return all(unpaired(request.messages) == "" for request in double.requests)


def test_a_role_looks_and_reports(attempt: Any) -> None:
    """It gets the reading tools of its share, `report`, and the remaining budget of its share."""
    with attempt([reading(), submitted()]) as double:
        assert consult(double.context).ask("Find it.") == REPORT
    (first, second) = double.requests
    assert [tool.name for tool in first.tools] == ["list_files", "read_file", "report"]
    assert [message.content for message in first.messages] == ["You search.", "Find it."]
    assert "class Cart:" in second.messages[-1].content
    assert second.messages[-1].content.endswith("[left: 4 steps]")
    assert paired(double)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "report: files: required field is missing"),
        ({"files": "a.py"}, "report: files: expected list of"),
        ({"files": [{"path": 3, "why": "x"}]}, "report: files[0].path: expected text, found 3"),
        ({"files": [], "fils": 1}, "report: fils: unknown field (did you mean 'files'?)"),
        (
            {"files": [{"path": "a", "why": "b", "snippets": [{"first_line": 0, "text": ""}]}]},
            "report: files[0].snippets[0].first_line: 0 is below 1",
        ),
        ([1, 2], "report: expected mapping with files, summary"),
    ],
)
def test_an_invalid_report_is_refused_with_the_reason(attempt: Any, arguments: Any, problem: str) -> None:
    with attempt([submitted(arguments), submitted()]) as double:
        assert consult(double.context).ask("Find it.") == REPORT
        assert results(double)[0].startswith(f"error: refused: {problem}")
        assert paired(double)


def test_a_report_with_unreadable_arguments_is_refused(attempt: Any) -> None:
    with attempt([submitted({}, problem="line 1: no JSON"), submitted(problem="cut off"), submitted()]) as double:
        assert consult(double.context).ask("Find it.") == REPORT
        assert [result.splitlines()[0] for result in results(double)] == [
            "error: refused: line 1: no JSON",
            "error: refused: cut off",
        ]


def test_a_report_that_is_not_accepted_is_refused(attempt: Any) -> None:
    problems = ["patch_conflict: line 3", ""]
    with attempt([submitted(), submitted()]) as double:
        assert consult(double.context, accept=lambda report: problems.pop(0)).ask("Find it.") == REPORT
        assert results(double) == ["error: refused: patch_conflict: line 3\n[left: 5 steps]"]


def test_endless_invalid_reports(attempt: Any) -> None:
    with attempt(lambda request: submitted({"no": "report"})) as double:
        failure = consult(double.context, tries=3).ask("Find it.")
        assert len(double.requests) == 3
    assert isinstance(failure, Failure)
    assert failure.reason.startswith("3 reports were refused; the last: report: ")


def test_an_endless_search(attempt: Any) -> None:
    """When the steps of its share are used up, no tool is called, and the model is asked to report."""
    with attempt(lambda request: reading()) as double:
        failure = consult(double.context, steps=2).ask("Find it.")
        assert failure == Failure("no report was submitted")
        assert double.budget.steps == 2
        assert len(double.requests) == 4
        assert results(double)[2].startswith("error: not_made: read_file: no steps are left; you can only call")
        assert paired(double)


def test_a_report_after_the_last_step(attempt: Any) -> None:
    with attempt([reading(), reading(), submitted()]) as double:
        assert consult(double.context, steps=1).ask("Find it.") == REPORT


def test_a_role_without_tools_calls_one(attempt: Any) -> None:
    """It costs no step; a problem of the call itself is part of the result."""
    role = attrs.evolve(SEARCHER, reads=False)
    broken = ToolCall(tool="read_file", arguments={}, problem="line 1: no JSON")
    with attempt([reading(), broken, submitted()]) as double:
        assert Consultation(role, double.context, RepairOptions(idle_turns=3), tries=3).ask("Judge.") == REPORT
        assert double.budget.steps == 0
        assert [result.splitlines()[0] for result in results(double)] == [
            "error: not_made: read_file: this tool is not available; you can only call `report` now",
            "error: not_made: read_file: line 1: no JSON; you can only call `report` now",
        ]


def test_a_role_without_steps_can_still_report(attempt: Any) -> None:
    with attempt([reading(), submitted()]) as double:
        assert consult(double.context, steps=0).ask("Find it.") == REPORT
        assert double.budget.steps == 0


@pytest.mark.parametrize(
    ("answer", "reason", "turns"),
    [
        (says("It is in a.py."), "no report was submitted", 2),
        (calls(), "no report was submitted", 2),
        (says("so lo", finish="length"), "no report was submitted", 2),
        (says("I cannot", finish="refusal"), "the model refused", 1),
        (says("", finish="empty"), "the model returned an empty response", 1),
        (says("", finish="context_overflow"), "the conversation exceeds the model's context window", 1),
        (reading("gone.py"), "3 tool calls in a row failed", 3),
        (ToolCall(tool="delegate", arguments={}), "3 tool calls in a row failed", 3),
    ],
)
def test_responses_that_end_without_a_report(attempt: Any, answer: Any, reason: str, turns: int) -> None:
    with attempt(lambda request: answer) as double:
        assert consult(double.context).ask("Find it.") == Failure(reason)
        assert len(double.requests) == turns


def test_text_responses_do_not_end_a_role_that_continues(attempt: Any) -> None:
    with attempt([says("hm"), reading(), says("hm"), reading(), says("hm", finish="length"), submitted()]) as double:
        assert consult(double.context).ask("Find it.") == REPORT
        messages = [message.content for message in double.last_messages if message.role == "user"]
    assert messages[1] == "Submit your result by calling `report`."
    assert messages[3] == "Your response was cut off. Be brief. Submit your result by calling `report`."


def test_calls_next_to_a_report(attempt: Any) -> None:
    """Calls before it are made. Calls after it are not, but have a result when the conversation continues."""
    with attempt([calls(reading(), submitted(), reading(), submitted()), submitted()]) as double:
        consultation = consult(double.context)
        assert consultation.ask("Find it.") == REPORT
        assert double.budget.steps == 1
        assert consultation.ask("That was not it.") == REPORT
        assert results(double)[1:] == [
            "result: That was not it.",
            "error: not_made: `report` ended the turn",
            "error: not_made: `report` ended the turn\n[left: 4 steps]",
        ]
        assert paired(double)


@pytest.mark.parametrize("error", [LLMError("down"), BudgetExceeded("all is used up", budget=Budget())])
def test_errors_that_end_the_attempt_propagate(attempt: Any, error: BaseException) -> None:
    def answer(request: Any) -> Completion:
        raise error

    with attempt(answer) as double, pytest.raises(type(error)):
        consult(double.context).ask("Find it.")
