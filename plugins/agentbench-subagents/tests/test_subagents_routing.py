"""The agent ``subagents``: typed decisions, typed reports, shares of the budget, and every way in which it ends."""

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench_core import (
    AgentResult,
    BudgetExceeded,
    DeadlineExceeded,
    Delegation,
    Interrupted,
    LLMError,
    Request,
    ToolCall,
)
from agentbench_core.testing import builtin_tools, calls, says
from agentbench_core.testing.agent_stage import unpaired
from agentbench_subagents.options import SubagentsOptions
from agentbench_subagents.routing import Subagents, roles

FOUND = {"files": [{"path": "src/shop/money.py", "why": "sums"}], "summary": "it drops the first price"}
USELESS = (
    "--- a/src/shop/money.py\n+++ b/src/shop/money.py\n@@ -1,2 +1,2 @@\n"
    "-def total(prices):\n+def total(prices):  # {}\n     return sum(prices[1:])\n"
)
ROLES = ("router", "searcher", "patcher", "tester")


def decide(action: str, task: str = "go") -> ToolCall:
    return ToolCall(tool="decide", arguments={"action": action, "task": task})


def report(**arguments: Any) -> ToolCall:
    return ToolCall(tool="report", arguments=arguments)


def solve(double: Any, **options: Any) -> AgentResult:
    return Subagents(SubagentsOptions(**options)).solve(double.context)


def role_of(request: Request) -> str:
    """Who asks: told by the prompt."""
    (name,) = [name for name in ROLES if getattr(roles(), name).prompt.text == request.messages[0].content]
    return name


def by_role(**answers: Callable[[Request], Any]) -> Callable[[Request], Any]:
    return lambda request: answers[role_of(request)](request)


def delegations(double: Any) -> list[tuple[str, str, str, int]]:
    return [(e.parent, e.child, e.role, e.depth) for e in double.events if isinstance(e, Delegation)]


def came_of(double: Any, number: int) -> str:
    """What the router was told of its decision of that number, from 1."""
    asked = [request for request in double.requests if role_of(request) == "router"][number]
    return str(asked.messages[-1].content)


def test_search_patch_and_the_command_passes(attempt: Any, fix: str) -> None:
    answers = [
        decide("search", "find the sum"),
        ToolCall(tool="read_file", arguments={"path": "src/shop/money.py"}),
        report(**FOUND),
        decide("patch", "sum them all"),
        report(unified_diff=fix, explanation="the slice dropped one"),
    ]
    with attempt(answers) as double:
        result = solve(double)
        assert double.passes()
        used = [call.tool for call in double.trace.tool_calls]
    assert (result.ended, result.message) == ("completed", "the failing command passes")
    assert result.prompt_version == roles().version
    assert used == ["run", "read_file", "apply_patch", "run"]
    assert delegations(double) == [("agent", "searcher-1", "searcher", 1), ("agent", "patcher-1", "patcher", 1)]
    assert [role_of(request) for request in double.requests] == [
        "router",
        "searcher",
        "searcher",
        "router",
        "patcher",
    ]


def test_each_role_is_offered_its_own_tools_and_told_what_it_needs(attempt: Any) -> None:
    answers = [
        decide("search", "find the sum"),
        report(**FOUND),
        decide("patch", "sum them all"),
        report(unified_diff=USELESS.format("one")),
        decide("test", "is it better?"),
        report(verdict="same", advice="look at the slice"),
        decide("patch", "mind the advice"),
        report(unified_diff=USELESS.format("two").replace("-def total(prices):", "-def total(prices):  # one")),
        decide("stop", "enough"),
    ]
    with attempt(answers) as double:
        result = solve(double)
    assert (result.ended, result.message) == ("gave_up", "the router stopped: enough")
    first = {role: request for request in reversed(double.requests) if (role := role_of(request))}
    offered = {role: [tool.name for tool in request.tools] for role, request in first.items()}
    assert offered == {
        "router": ["decide"],
        "searcher": ["list_files", "read_file", "search", "report"],
        "patcher": ["list_files", "read_file", "search", "report"],
        "tester": ["report"],
    }
    told = {role: request.messages[1].content for role, request in first.items()}
    for role in ("router", "searcher", "patcher"):
        assert "AssertionError: 2 != 3" in told[role], role
    assert "Your task: find the sum" in told["searcher"]
    assert "it drops the first price\nsrc/shop/money.py: sums" in told["patcher"]
    assert "+def total(prices):  # one" in told["tester"]
    assert told["tester"].count("AssertionError: 2 != 3") == 2
    second_patcher = [request for request in double.requests if role_of(request) == "patcher"][1].messages[1].content
    assert "Advice from somebody who read the latest output: look at the slice" in second_patcher
    assert "+def total(prices):  # one" in second_patcher
    assert came_of(double, 3).startswith("result:\nverdict: same\nadvice: look at the slice")


def test_a_patch_that_does_not_apply_goes_back_to_the_patcher(attempt: Any, fix: str) -> None:
    """With the tool's reason, in the same conversation; each try is a step of the parent's."""
    answers = [
        decide("patch"),
        report(unified_diff="I would change the slice"),
        report(unified_diff=fix.replace("prices[1:]", "prices[2:]")),
        report(unified_diff=fix),
    ]
    with attempt(answers) as double:
        assert solve(double).ended == "completed"
        used = [call.tool for call in double.trace.tool_calls]
        told = [message.content for message in double.last_messages if message.role == "tool"]
    assert used == ["run", "apply_patch", "apply_patch", "apply_patch", "run"]
    assert [line.split(":")[2].strip() for line in told] == ["bad_patch", "patch_conflict"]


def test_diffs_that_never_apply_are_told_to_the_router(attempt: Any) -> None:
    answers = by_role(
        router=lambda request: decide("patch" if len(request.messages) < 4 else "stop", "try"),
        patcher=lambda request: report(unified_diff="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
    )
    with attempt(answers) as double:
        assert solve(double, report_tries=2).ended == "gave_up"
    said = came_of(double, 1)
    assert "The patcher ended without a result: 2 reports were refused; the last: not_found" in said


@pytest.mark.parametrize(
    ("searcher", "reason"),
    [
        (lambda request: says("no", finish="refusal"), "the model refuses"),
        (lambda request: report(files="all of them"), "3 reports were refused; the last: report: files: expected list"),
        (lambda request: ToolCall(tool="list_files", arguments={}), "no report came, although it was asked for"),
        (lambda request: ToolCall(tool="fly", arguments={}), "no report came, although it was asked for"),
        (lambda request: "It is in money.py", "no report came, although it was asked for"),
    ],
    ids=["refusal", "garbage", "endless search", "unknown tool", "words"],
)
def test_a_role_that_fails_is_something_that_the_router_reads(attempt: Any, searcher: Any, reason: str) -> None:
    router = iter([decide("search"), decide("stop", "no luck")])
    with attempt(by_role(router=lambda request: next(router), searcher=searcher)) as double:
        result = solve(double, searcher_steps=3)
        assert double.budget.steps <= 1 + 3
    assert (result.ended, result.message) == ("gave_up", "the router stopped: no luck")
    assert f"The searcher ended without a result: {reason}" in came_of(double, 1)


def test_a_share_of_tokens_that_is_used_up_ends_the_role_and_not_the_attempt(attempt: Any) -> None:
    """The next role has a share of its own."""
    router = iter([decide("search"), decide("search"), decide("stop", "no luck")])
    answers = by_role(
        router=lambda request: next(router), searcher=lambda request: ToolCall(tool="list_files", arguments={})
    )
    with attempt(answers) as double:
        assert solve(double, searcher_tokens=10).message == "the router stopped: no luck"
        assert double.budget.steps == 3
    for number in (1, 2):
        assert "its share of the budget is used up: all 10 tokens are used up" in came_of(double, number)
    assert [child for _, child, _, _ in delegations(double)] == ["searcher-1", "searcher-2"]


def test_the_budget_of_the_attempt_ends_it_wherever_it_is_noticed(attempt: Any) -> None:
    """Also inside of a sub-agent: what it is told there is not its own affair."""
    answers = by_role(
        router=lambda request: decide("search"), searcher=lambda request: ToolCall(tool="list_files", arguments={})
    )
    for limits in ({"max_steps": 1}, {"max_tokens": 3000}):
        with attempt(answers, **limits) as double, pytest.raises(BudgetExceeded) as ended:
            solve(double, searcher_steps=50, searcher_tokens=1_000_000)
        assert ended.value.whose is double.budget
        assert not double.trace.late


def test_the_last_steps_are_not_searched_away(attempt: Any, fix: str) -> None:
    router = iter([decide("search"), decide("patch")])
    answers = by_role(router=lambda request: next(router), patcher=lambda request: report(unified_diff=fix))
    with attempt(answers, max_steps=3) as double:
        assert solve(double).ended == "completed"
    assert "the last 2 steps are for a patch and to run the command" in came_of(double, 1)
    assert [child for _, child, _, _ in delegations(double)] == ["patcher-1"]


def test_the_last_step_of_all_is_for_the_patch(attempt: Any, fix: str) -> None:
    """It is applied, and then there is no step to run the command: the change stays, and is judged."""
    answers = by_role(router=lambda request: decide("patch"), patcher=lambda request: report(unified_diff=fix))
    with attempt(answers, max_steps=2) as double:
        with pytest.raises(BudgetExceeded):
            solve(double)
        assert double.passes()


def test_steps_to_apply_and_to_run_are_kept_from_sub_agents(attempt: Any, fix: str) -> None:
    def patcher(request: Request) -> Any:
        full = "no step is left" in request.messages[-1].content
        return report(unified_diff=fix) if full else ToolCall(tool="read_file", arguments={"path": "src/shop/money.py"})

    with attempt(by_role(router=lambda request: decide("patch"), patcher=patcher), max_steps=6) as double:
        assert solve(double, patcher_steps=50).ended == "completed"
        assert [call.tool for call in double.trace.tool_calls] == ["run", *["read_file"] * 3, "apply_patch", "run"]


def test_the_same_failure_again_and_again(attempt: Any) -> None:
    answers: list[Any] = []
    for number in range(9):
        diff = USELESS.format(number)
        diff = diff.replace("-def total(prices):", f"-def total(prices):  # {number - 1}") if number else diff
        answers += [decide("patch"), report(unified_diff=diff)]
    with attempt(answers) as double:
        result = solve(double, same_failure=3)
    assert (result.ended, result.message) == ("gave_up", "the command fails in the same way after 3 changes")
    assert "in the same way as before, 2 times in a row" in came_of(double, 2)


def test_decisions_are_bounded(attempt: Any) -> None:
    answers = by_role(
        router=lambda request: decide("test"), tester=lambda request: report(verdict="same", advice="go on")
    )
    with attempt(answers) as double:
        result = solve(double, max_rounds=4)
        assert double.budget.steps == 1
    assert (result.ended, result.message) == ("gave_up", "4 decisions did not make the command pass")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            decide("dance"),
            "3 reports were refused; the last: decide: action: expected one of search, patch, test,",
        ),
        (says("no", finish="refusal"), "the model refuses"),
        (says("Let us search."), "no report came, although it was asked for"),
        (ToolCall(tool="read_file", arguments={"path": "x"}), "no report came, although it was asked for"),
        (calls(), "no report came, although it was asked for"),
    ],
    ids=["unknown action", "refusal", "words", "a tool of others", "nothing"],
)
def test_a_router_that_does_not_decide(attempt: Any, answer: Any, reason: str) -> None:
    with attempt(lambda request: answer) as double:
        result = solve(double)
        assert double.budget.steps == 1
    assert result.ended == "gave_up"
    assert result.message.startswith(f"the router: {reason}")
    assert result.prompt_version == roles().version


def test_a_command_that_passes_from_the_start_is_judged_by_others(attempt: Any, fix: str) -> None:
    """Hidden tests decide then: the router says when it is done, and the command passing says nothing."""
    answers = [decide("patch"), report(unified_diff=fix), decide("stop", "done")]
    with attempt(answers, failing_command="true") as double:
        result = solve(double)
        assert "`true` passes with it" in came_of(double, 1)
    assert (result.ended, result.message) == ("completed", "the router stopped: done")


def test_without_a_tool_to_patch_or_to_run_nothing_is_begun(attempt: Any) -> None:
    tools = [tool for tool in builtin_tools() if tool.spec.name != "apply_patch"]
    with attempt([], tools=tools) as double:
        result = solve(double)
        assert double.budget.steps == 0
    assert result.ended == "tool_error"
    assert result.message == "nothing can be repaired here without the tool apply_patch"


ANYTHING = (
    decide("search"),
    decide("patch"),
    decide("test"),
    decide("dance"),
    report(**FOUND),
    report(files="all"),
    report(unified_diff=USELESS.format("one")),
    report(unified_diff="no diff"),
    report(verdict="same", advice="go on"),
    report(),
    ToolCall(tool="read_file", arguments={"path": "src/shop/money.py"}),
    ToolCall(tool="read_file", arguments={}, problem="no JSON"),
    ToolCall(tool="fly", arguments={"unified_diff": 1}),
    calls(decide("search"), decide("patch"), report(), report(**FOUND), decide("stop")),
    calls(),
    says("hm"),
    says("so", finish="length"),
    says("no", finish="refusal"),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(range(len(ANYTHING))), min_size=1, max_size=8))
def test_whatever_the_model_says_it_ends_within_its_budget(attempt: Any, chosen: list[int]) -> None:
    """Every conversation is well-formed: each call has its result right behind the answer."""
    endless = itertools.cycle(chosen)
    with attempt(lambda request: ANYTHING[next(endless)], max_steps=12) as double:
        result: Any
        try:
            result = solve(double, max_rounds=6)
        except BudgetExceeded as error:
            result = error
        assert isinstance(result, AgentResult) or result.whose is double.budget
        assert double.budget.steps <= 12
        assert len(double.requests) <= 200
        for request in double.requests:
            assert unpaired(request.messages) == ""


@pytest.mark.parametrize("error", [LLMError("down"), DeadlineExceeded("over"), Interrupted("stopped")])
@pytest.mark.parametrize("who", ["router", "searcher"])
def test_what_ends_the_attempt_from_outside_passes(attempt: Any, error: BaseException, who: str) -> None:
    def fail(request: Request) -> Any:
        raise error

    answers = {"router": lambda request: decide("search"), "searcher": fail} | {who: fail}
    with attempt(by_role(**answers)) as double, pytest.raises(type(error)):
        solve(double)
    assert not double.trace.late


def test_the_version_names_prompts_and_what_is_asked_for() -> None:
    known = roles()
    assert known.version.startswith("subagents_v1@sha256:")
    changed = attrs.evolve(known.tester.prompt, text="Judge.")
    assert attrs.evolve(known, tester=attrs.evolve(known.tester, prompt=changed)).version != known.version
    assert attrs.evolve(known, tester=attrs.evolve(known.tester, purpose="Say.")).version != known.version
