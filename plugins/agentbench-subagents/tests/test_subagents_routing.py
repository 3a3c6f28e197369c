"""The agent ``subagents``: typed decisions, typed reports, shares of the budget, and every way in which it ends."""

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

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
from agentbench_subagents.options import SubagentsOptions
from agentbench_subagents.routing import Subagents, roles
from agentbench_testing import builtin_tools, calls, says
from agentbench_testing.checks.agent.stage import unpaired

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
    """The role that sent a request, by its prompt."""
    (name,) = [name for name in ROLES if getattr(roles("v2"), name).prompt.text == request.messages[0].content]
    return name


def by_role(**answers: Callable[[Request], Any]) -> Callable[[Request], Any]:
    return lambda request: answers[role_of(request)](request)


def delegations(double: Any) -> list[tuple[str, str, str, int]]:
    return [(e.parent, e.child, e.role, e.depth) for e in double.events if isinstance(e, Delegation)]


def outcome_of(double: Any, number: int) -> str:
    """The outcome of the router's decision of that number, from 1."""
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
    assert result.prompt_version == roles("v2").version
    assert used == ["run", "read_file", "apply_patch", "run"]
    assert delegations(double) == [("agent", "searcher-1", "searcher", 1), ("agent", "patcher-1", "patcher", 1)]
    assert [role_of(request) for request in double.requests] == [
        "router",
        "searcher",
        "searcher",
        "router",
        "patcher",
    ]


def test_each_role_gets_its_tools_and_the_information_it_needs(attempt: Any) -> None:
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
    messages = {role: request.messages[1].content for role, request in first.items()}
    for role in ("router", "searcher", "patcher"):
        assert "AssertionError: 2 != 3" in messages[role], role
    assert "Your task: find the sum" in messages["searcher"]
    assert "it drops the first price\nsrc/shop/money.py: sums" in messages["patcher"]
    assert "+def total(prices):  # one" in messages["tester"]
    assert messages["tester"].count("AssertionError: 2 != 3") == 2
    second_patcher = [request for request in double.requests if role_of(request) == "patcher"][1].messages[1].content
    assert "Advice from the tester, based on the latest output: look at the slice" in second_patcher
    assert "+def total(prices):  # one" in second_patcher
    assert outcome_of(double, 3).startswith("result:\nverdict: same\nadvice: look at the slice")


def test_a_patch_that_does_not_apply_goes_back_to_the_patcher(attempt: Any, fix: str) -> None:
    """With the tool's reason, in the same conversation; each try is a step of the parent."""
    answers = [
        decide("patch"),
        report(unified_diff="I would change the slice"),
        report(unified_diff=fix.replace("prices[1:]", "prices[2:]")),
        report(unified_diff=fix),
    ]
    with attempt(answers) as double:
        assert solve(double).ended == "completed"
        used = [call.tool for call in double.trace.tool_calls]
        results = [message.content for message in double.last_messages if message.role == "tool"]
    assert used == ["run", "apply_patch", "apply_patch", "apply_patch", "run"]
    assert [line.split(":")[2].strip() for line in results] == ["bad_patch", "patch_conflict"]


def test_the_router_reads_that_no_diff_could_be_applied(attempt: Any) -> None:
    answers = by_role(
        router=lambda request: decide("patch" if len(request.messages) < 4 else "stop", "try"),
        patcher=lambda request: report(unified_diff="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
    )
    with attempt(answers) as double:
        assert solve(double, report_tries=2).ended == "gave_up"
    message = outcome_of(double, 1)
    assert "The patcher ended without a result: 2 reports were refused; the last: not_found" in message


@pytest.mark.parametrize(
    ("searcher", "reason"),
    [
        (lambda request: says("no", finish="refusal"), "the model refused"),
        (lambda request: report(files="all of them"), "3 reports were refused; the last: report: files: expected list"),
        (lambda request: ToolCall(tool="list_files", arguments={}), "no report was submitted"),
        (lambda request: ToolCall(tool="fly", arguments={}), "no report was submitted"),
        (lambda request: "It is in money.py", "no report was submitted"),
    ],
    ids=["refusal", "garbage", "endless search", "unknown tool", "words"],
)
def test_the_router_reads_that_a_role_failed(attempt: Any, searcher: Any, reason: str) -> None:
    router = iter([decide("search"), decide("stop", "no luck")])
    with attempt(by_role(router=lambda request: next(router), searcher=searcher)) as double:
        result = solve(double, searcher_steps=3)
        assert double.budget.steps <= 1 + 3
    assert (result.ended, result.message) == ("gave_up", "the router stopped: no luck")
    assert f"The searcher ended without a result: {reason}" in outcome_of(double, 1)


def test_exhausted_token_share_ends_only_the_role(attempt: Any) -> None:
    """The next role has a share of its own."""
    router = iter([decide("search"), decide("search"), decide("stop", "no luck")])
    answers = by_role(
        router=lambda request: next(router), searcher=lambda request: ToolCall(tool="list_files", arguments={})
    )
    with attempt(answers) as double:
        assert solve(double, searcher_tokens=10).message == "the router stopped: no luck"
        assert double.budget.steps == 3
    for number in (1, 2):
        assert "its share of the budget is used up: all 10 tokens are used up" in outcome_of(double, number)
    assert [child for _, child, _, _ in delegations(double)] == ["searcher-1", "searcher-2"]


def test_the_budget_of_the_attempt_ends_it_anywhere(attempt: Any) -> None:
    """Also inside a sub-agent: the error belongs to the parent."""
    answers = by_role(
        router=lambda request: decide("search"), searcher=lambda request: ToolCall(tool="list_files", arguments={})
    )
    for limits in ({"max_steps": 1}, {"max_tokens": 3000}):
        with attempt(answers, **limits) as double, pytest.raises(BudgetExceeded) as ended:
            solve(double, searcher_steps=50, searcher_tokens=1_000_000)
        assert ended.value.budget is double.budget
        assert not double.trace.late


def test_a_search_does_not_get_the_last_steps(attempt: Any, fix: str) -> None:
    router = iter([decide("search"), decide("patch")])
    answers = by_role(router=lambda request: next(router), patcher=lambda request: report(unified_diff=fix))
    with attempt(answers, max_steps=3) as double:
        assert solve(double).ended == "completed"
    assert "the last 2 steps are reserved for a patch and for running the command" in outcome_of(double, 1)
    assert [child for _, child, _, _ in delegations(double)] == ["patcher-1"]


def test_decisions_that_cannot_be_carried_out_end_the_attempt(attempt: Any) -> None:
    """A search without steps, or an undo without changes. A single one does not end it."""
    for action, steps, why in (("search", 3, "the last 2 steps are reserved"), ("undo", 9, "There is no change to")):
        with attempt(lambda request, action=action: decide(action), max_steps=steps) as double:
            result = solve(double)
            assert (double.budget.steps, len(double.requests)) == (1, 2)
        assert result.ended == "gave_up"
        assert result.message.startswith("2 consecutive decisions could not be carried out; last problem: ")
        assert why in result.message
    router = iter([decide("undo"), decide("test"), decide("undo"), decide("test"), decide("stop", "enough")])
    judging = by_role(router=lambda request: next(router), tester=lambda request: report(verdict="same", advice="no"))
    with attempt(judging) as double:
        assert solve(double).message == "the router stopped: enough"


def worse(old: str, new: str) -> str:
    return f"--- a/src/shop/money.py\n+++ b/src/shop/money.py\n@@ -1,2 +1,2 @@\n def total(prices):\n-{old}\n+{new}\n"


SUM, FIRST, SECOND = ("    return sum(prices[1:])", "    return 1 / 0", "    return nothing")


def test_a_change_is_reverted_and_the_one_before_it_too(attempt: Any, fix: str) -> None:
    """One step each. Sub-agents see which changes are in the files and which were reverted; old advice is dropped."""
    answers = [
        decide("patch"),
        report(unified_diff=worse(SUM, FIRST)),
        decide("patch"),
        report(unified_diff=worse(FIRST, SECOND)),
        decide("test"),
        report(verdict="worse", advice="take it back"),
        decide("undo", "it is worse"),
        decide("undo", "as is this"),
        decide("undo", "and this?"),
        decide("patch"),
        report(unified_diff=fix),
    ]
    with attempt(answers) as double:
        assert solve(double).ended == "completed"
        assert double.text("src/shop/money.py") == "def total(prices):\n    return sum(prices)\n"
        used = [call.tool for call in double.trace.tool_calls]
    assert used == ["run", *["apply_patch", "run"] * 2, "apply_patch", "apply_patch", "apply_patch", "run"]
    assert "earlier changes that remain: 1" in outcome_of(double, 4)
    assert "ZeroDivisionError" in outcome_of(double, 4)
    assert "NameError" not in outcome_of(double, 4)
    assert "no changes remain" in outcome_of(double, 5)
    assert "AssertionError: 2 != 3" in outcome_of(double, 5)
    assert outcome_of(double, 6).startswith("result: There is no change to revert.")
    message = double.last_messages[1].content
    assert "These changes were tried and reverted, because they did not help:" in message
    assert message.count("+    return 1 / 0") == message.count("+    return nothing") == 1
    assert "These changes have already been made" not in message
    assert "take it back" not in message


def test_the_router_reads_that_a_change_could_not_be_reverted(attempt: Any) -> None:
    """Removed lines without context have no position to restore them at, so the change stays."""
    answers = [
        decide("patch"),
        report(unified_diff="--- a/src/shop/cart.py\n+++ b/src/shop/cart.py\n@@ -2 +1,0 @@\n-\n"),
        decide("undo"),
        decide("stop", "enough"),
    ]
    answers[1] = report(
        unified_diff=answers[1].arguments["unified_diff"].replace("-\n", '-    """Prices in cents."""\n')
    )
    with attempt(answers) as double:
        assert solve(double).message == "the router stopped: enough"
        assert "Prices in cents" not in double.text("src/shop/cart.py")
    assert "The last change could not be reverted: patch_conflict: " in outcome_of(double, 2)


def test_a_report_about_missing_files_is_refused(attempt: Any) -> None:
    """Files that the searcher did not read are read once each, as steps of the searcher."""
    answers = [
        decide("search"),
        report(files=[{"path": "no/such.py", "why": "w", "snippets": [{"first_line": 9, "text": "print(1)"}]}]),
        report(files=[{"path": "no/such.py", "why": "w"}, {"path": "/etc/passwd", "why": "w"}]),
        report(**FOUND),
        decide("stop", "enough"),
    ]
    with attempt(answers) as double:
        solve(double)
        used = [call.arguments.get("path") for call in double.trace.tool_calls[1:]]
        results = [message.content for request in double.requests[2:4] for message in request.messages[-1:]]
    assert used == ["no/such.py", "/etc/passwd", "src/shop/money.py"]
    assert results[0].startswith("error: refused: 'no/such.py' cannot be read: not_found")
    assert "; '/etc/passwd' cannot be read: " in results[1]
    assert "it drops the first price\nsrc/shop/money.py: sums" in outcome_of(double, 1)


def test_line_numbers_of_snippets_are_corrected(attempt: Any) -> None:
    """Without another step; lines that the file does not contain are marked."""
    snippets = [
        {"first_line": 400, "text": "    def sum(self):\n        return total(self.prices)  \n"},
        {"text": "class Cart:"},
        {"first_line": 3, "text": "print('invented')"},
    ]
    answers = [
        decide("search"),
        ToolCall(tool="read_file", arguments={"path": "src/shop/cart.py", "start_line": 4}),
        report(files=[{"path": "./src/shop/cart.py", "why": "sums", "snippets": snippets}]),
        decide("stop", "enough"),
    ]
    with attempt(answers) as double:
        solve(double)
        assert double.budget.steps == 2
    assert (
        "src/shop/cart.py: sums\nfrom line 10:\n    def sum(self):\n        return total(self.prices)\n"
        "from line 4:\nclass Cart:\nnot found in the lines that were read:\nprint('invented')"
    ) in outcome_of(double, 1)


def test_of_several_matches_of_a_snippet_the_nearest_is_used(attempt: Any) -> None:
    """Leading blank lines are part of the snippet."""
    snippets = [{"first_line": 6, "text": "\nx = 1\n\n"}, {"first_line": 9, "text": "y = 2\nx = 1"}]
    answers = [
        decide("search"),
        report(files=[{"path": "a.py", "why": "sums", "snippets": snippets}]),
        decide("stop", "enough"),
    ]
    with attempt(answers, files={"a.py": "x = 1\ny = 2\n" * 9}, failing_command="false") as double:
        solve(double)
    assert "from line 6:\n\nx = 1\nfrom line 8:\ny = 2\nx = 1" in outcome_of(double, 1)


def test_without_a_step_left_a_file_is_reported_as_unread(attempt: Any) -> None:
    answers = [decide("search"), report(**FOUND), decide("stop", "enough")]
    with attempt(answers) as double:
        solve(double, searcher_steps=0)
        assert double.budget.steps == 1
    assert "src/shop/money.py: sums (not read yet)" in outcome_of(double, 1)


def test_earlier_findings_are_kept(attempt: Any) -> None:
    answers = [
        decide("search"),
        report(**FOUND),
        decide("search"),
        report(files=[{"path": "src/shop/cart.py", "why": "calls it"}]),
        decide("search"),
        report(files=[], summary="nothing here"),
        decide("patch"),
        says("hm"),
        says("hm"),
        decide("stop", "enough"),
    ]
    with attempt(answers) as double:
        solve(double)
    assert "result: nothing here" in outcome_of(double, 3)
    message = next(request for request in double.requests if role_of(request) == "patcher").messages[1].content
    found = "it drops the first price\nsrc/shop/cart.py: calls it\nsrc/shop/money.py: sums\n"
    assert f"Findings so far:\n\n{found}" in message


def test_last_step_is_reserved_for_the_patch(attempt: Any, fix: str) -> None:
    """It is applied, and no step is left to run the command: the change stays, and is scored."""
    answers = by_role(router=lambda request: decide("patch"), patcher=lambda request: report(unified_diff=fix))
    with attempt(answers, max_steps=2) as double:
        with pytest.raises(BudgetExceeded):
            solve(double)
        assert double.passes()


def test_sub_agents_do_not_get_the_steps_to_apply_and_run(attempt: Any, fix: str) -> None:
    def patcher(request: Request) -> Any:
        full = "no steps are left" in request.messages[-1].content
        return report(unified_diff=fix) if full else ToolCall(tool="read_file", arguments={"path": "src/shop/money.py"})

    with attempt(by_role(router=lambda request: decide("patch"), patcher=patcher), max_steps=6) as double:
        assert solve(double, patcher_steps=50).ended == "completed"
        assert [call.tool for call in double.trace.tool_calls] == ["run", *["read_file"] * 3, "apply_patch", "run"]


def test_repeated_identical_failures_end_the_attempt(attempt: Any) -> None:
    answers: list[Any] = []
    for number in range(9):
        diff = USELESS.format(number)
        diff = diff.replace("-def total(prices):", f"-def total(prices):  # {number - 1}") if number else diff
        answers += [decide("patch"), report(unified_diff=diff)]
    with attempt(answers) as double:
        result = solve(double, same_failure=3)
    assert (result.ended, result.message) == ("gave_up", "the command still fails in the same way after 3 changes")
    assert "in the same way after 2 changes in a row" in outcome_of(double, 2)


def test_decisions_are_bounded(attempt: Any) -> None:
    answers = by_role(
        router=lambda request: decide("test"), tester=lambda request: report(verdict="same", advice="go on")
    )
    with attempt(answers) as double:
        result = solve(double, max_rounds=4)
        assert double.budget.steps == 1
    assert (result.ended, result.message) == ("gave_up", "the command still fails after 4 decisions (max_rounds)")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            decide("dance"),
            "3 reports were refused; the last: decide: action: expected one of search, patch, undo, test,",
        ),
        (says("no", finish="refusal"), "the model refused"),
        (says("Let us search."), "no report was submitted"),
        (ToolCall(tool="read_file", arguments={"path": "x"}), "no report was submitted"),
        (calls(), "no report was submitted"),
    ],
    ids=["unknown action", "refusal", "words", "another tool", "nothing"],
)
def test_a_router_that_does_not_decide(attempt: Any, answer: Any, reason: str) -> None:
    with attempt(lambda request: answer) as double:
        result = solve(double)
        assert double.budget.steps == 1
    assert result.ended == "gave_up"
    assert result.message.startswith(f"the router failed: {reason}")
    assert result.prompt_version == roles("v2").version


def test_hidden_tests_decide_if_the_command_passes_from_the_start(attempt: Any, fix: str) -> None:
    """The router chooses when to stop."""
    answers = [decide("patch"), report(unified_diff=fix), decide("stop", "done")]
    with attempt(answers, failing_command="true") as double:
        result = solve(double)
        assert "`true` passes with this change" in outcome_of(double, 1)
        for request in double.requests[:2]:
            assert "`true` already passes. Hidden tests decide" in request.messages[1].content
    assert (result.ended, result.message) == ("completed", "the router stopped: done")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"apply_patch"}, "the apply_patch tool"),
        ({"run"}, "a tool that runs commands"),
        ({"apply_patch", "run"}, "the apply_patch tool and a tool that runs commands"),
    ],
)
def test_without_a_tool_to_patch_or_run_it_does_not_start(attempt: Any, missing: set[str], message: str) -> None:
    tools = [tool for tool in builtin_tools() if tool.spec.name not in missing]
    with attempt([], tools=tools) as double:
        result = solve(double)
        assert double.budget.steps == 0
    assert result.ended == "tool_error"
    assert result.message == f"the 'subagents' agent requires {message}"


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


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(range(len(ANYTHING))), min_size=1, max_size=8))
def test_any_responses_end_within_the_budget(attempt: Any, chosen: list[int]) -> None:
    """Every conversation is well-formed: each call is followed by its result."""
    endless = itertools.cycle(chosen)
    with attempt(lambda request: ANYTHING[next(endless)], max_steps=12) as double:
        result: Any
        try:
            result = solve(double, max_rounds=6)
        except BudgetExceeded as error:
            result = error
        assert isinstance(result, AgentResult) or result.budget is double.budget
        assert double.budget.steps <= 12
        assert len(double.requests) <= 200
        for request in double.requests:
            assert unpaired(request.messages) == ""


@pytest.mark.parametrize("error", [LLMError("down"), DeadlineExceeded("over"), Interrupted("stopped")])
@pytest.mark.parametrize("who", ["router", "searcher"])
def test_errors_that_end_the_attempt_propagate(attempt: Any, error: BaseException, who: str) -> None:
    def fail(request: Request) -> Any:
        raise error

    answers = {"router": lambda request: decide("search"), "searcher": fail} | {who: fail}
    with attempt(by_role(**answers)) as double, pytest.raises(type(error)):
        solve(double)
    assert not double.trace.late


def test_the_version_covers_prompts_and_report_tools() -> None:
    known = roles("v2")
    assert known.version.startswith("subagents_v2@sha256:")
    changed = attrs.evolve(known.tester.prompt, text="Judge.")
    assert attrs.evolve(known, tester=attrs.evolve(known.tester, prompt=changed)).version != known.version
    assert attrs.evolve(known, tester=attrs.evolve(known.tester, purpose="Report.")).version != known.version
