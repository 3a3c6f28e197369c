"""Turns: the conversation and the log of tool calls of an attempt, joined."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Completion, ConversationEntry, Message, ToolCall
from agentbench_report.html import calls, turns
from agentbench_report.html.calls import ShownCall
from agentbench_report.html.texts import Texts
from agentbench_report.html.timeline import EMPTY, AgentActivity, Timeline
from agentbench_testing import write_run

Join = Callable[..., turns.Turns]


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    return Texts(write_run(tmp_path / "run", {"x": True}), "x", 1)


@pytest.fixture
def join(texts: Texts) -> Join:
    def joined(
        records: Sequence[ConversationEntry], log: Sequence[Mapping[str, Any]] = (), timeline: Timeline = EMPTY
    ) -> turns.Turns:
        return turns.turns(records, list(calls.logged(log, texts, timeline)), timeline, texts)

    return joined


def entry(
    call: int, *asked: ToolCall, agent: str = "m", told: Sequence[Message] = (), says: str = "", **opaque: Any
) -> ConversationEntry:
    answer = Message(role="assistant", content=says, tool_calls=asked, opaque=opaque)
    return ConversationEntry(
        call=call, agent=agent, since=0, messages=tuple(told), completion=Completion(message=answer)
    )


def line(step: int, tool: str = "run", id: str = "", ok: bool = True, **fields: Any) -> dict[str, Any]:  # noqa: A002
    arguments = {"command": f"step {step}"}
    call = {"tool": tool, "arguments": arguments, "id": id, "problem": ""}
    return {"step": step, "call": call, "result": {"ok": ok, "fields": fields, "error_type": "", "error_message": ""}}


def call(id: str, tool: str = "run", command: str = "") -> ToolCall:  # noqa: A002
    return ToolCall(tool=tool, arguments={"command": command}, id=id)


def result(id: str, content: str) -> Message:  # noqa: A002
    return Message(role="tool", content=content, tool_call_id=id)


def outline(joined: turns.Turns) -> list[tuple[int, list[int]]]:
    """The number of each model call with the steps in its turn. Calls that are not in the log have step 0."""
    return [(turn.call, [one.step for one in turn.calls]) for turn in joined.turns]


def placed(**known: Any) -> Timeline:
    return attrs.evolve(EMPTY, **known)


def test_a_request_gets_the_result_with_its_id(join: Join) -> None:
    joined = join(
        [entry(1, call("a"), call("b")), entry(2, call("a"))],
        [line(1, id="b", exit_code=3), line(2, id="a"), line(3, id="a")],
    )
    assert outline(joined) == [(1, [2, 1]), (2, [3])], "an id that is used again belongs to the next unused line"
    assert joined.turns[0].calls[1].exit_code == 3
    assert not joined.others


def test_agents_with_the_same_ids_are_not_confused(join: Join) -> None:
    """Sub-agents that run in parallel use the same numbers for their calls."""
    timeline = placed(
        step_agents={1: "n", 2: "m"},
        step_calls={1: 2, 2: 2},
        agents=[AgentActivity(name="m"), AgentActivity(name="n", role="searcher", depth=1)],
    )
    joined = join([entry(1, call("a")), entry(2, call("a"), agent="n")], [line(1, id="a"), line(2, id="a")], timeline)
    assert outline(joined) == [(1, [2]), (2, [1])]
    assert [(turn.agent, turn.role, turn.depth) for turn in joined.turns] == [("m", "", 0), ("n", "searcher", 1)]


def test_calls_without_an_id_are_matched_by_their_arguments(join: Join) -> None:
    timeline = placed(step_calls={1: 0, 2: 1})
    repeated = [line(1), line(2) | {"call": line(1)["call"]}]
    joined = join([entry(1, call("x", command="step 1"))], repeated, timeline)
    assert outline(joined) == [(0, [1]), (1, [2])], "a step before the request is not its result"


def test_calls_of_the_program_are_placed_by_events(join: Join) -> None:
    timeline = placed(step_calls={1: 0, 2: 1, 3: 2}, step_agents={1: "m", 2: "m", 3: "m"})
    joined = join([entry(1), entry(2)], [line(1), line(2), line(3), line(4)], timeline)
    assert outline(joined) == [(0, [1]), (1, [2]), (2, [3])]
    assert [one.step for one in joined.others] == [4], "without an event, a call is listed at the end"
    assert not any(one.requested for turn in joined.turns for one in turn.calls)


def test_without_a_model_all_steps_are_one_turn(join: Join) -> None:
    joined = join([], [line(1), line(2)], placed(step_calls={1: 0, 2: 0}, step_agents={1: "scripted", 2: "scripted"}))
    assert outline(joined) == [(0, [1, 2])]
    assert joined.turns[0].agent == "scripted"
    assert joined.asked == ()


def test_the_first_request_is_what_was_asked(join: Join) -> None:
    told = [Message(role="system", content="be brief"), Message(role="user", content="fix it")]
    joined = join([entry(1, told=told), entry(2, told=[Message(role="user", content="go on")])])
    assert [one.content.text for one in joined.asked] == ["be brief", "fix it"]
    assert [[one.content.text for one in turn.told] for turn in joined.turns] == [[], ["go on"]]


@pytest.mark.parametrize(
    ("content", "received"),
    [
        ("exit_code: 1\nstdout:\n2 failed\n  in 3 s", None),
        ("exit_code: 1\nstdout:\n2 failed\n[left: 7 steps]", "[left: 7 steps]"),
        ("another\ntext\nof\nfour\nlines", "another\ntext\nof\nfour\nlines"),
    ],
)
def test_what_the_model_received_is_shown_if_it_differs(join: Join, content: str, received: str | None) -> None:
    """The result is not shown twice, but text that only the model received is shown."""
    joined = join(
        [entry(1, call("a")), entry(2, told=[result("a", content)])],
        [line(1, id="a", exit_code=1, stdout="2 failed\nin 3 s")],
    )
    shown = joined.turns[0].calls[0]
    assert (shown.received and shown.received.text) == received
    assert joined.turns[1].told == []


def test_results_without_a_log_line_are_shown(join: Join) -> None:
    """Programs run their own tools, and agents have tools that take no step."""
    joined = join([entry(1, call("a", tool="report")), entry(2, told=[result("a", "noted"), result("?", "lost")])])
    shown = joined.turns[0].calls[0]
    assert (shown.step, shown.ok, shown.received and shown.received.text) == (0, None, "noted")
    assert [one.content.text for one in joined.turns[1].told] == ["lost"], "a result without a call is a message"


def test_an_answer_that_is_sent_back_is_shown_once(join: Join) -> None:
    again = Message(role="assistant", content="I run it", tool_calls=(call("ours"),))
    joined = join(
        [
            entry(1, call("theirs"), says="I run it"),
            entry(2, agent="n", told=[again]),
            entry(3, told=[again, Message(role="user", content="ok")]),
        ]
    )
    assert [[one.content.text for one in turn.told] for turn in joined.turns] == [[], ["I run it"], ["ok"]]


def test_number_of_turns_is_bounded(join: Join) -> None:
    joined = join([entry(number) for number in range(1, turns.MAX_TURNS + 8)])
    assert (len(joined.turns), joined.left_out) == (turns.MAX_TURNS, 7)


@pytest.mark.parametrize(
    ("opaque", "words"),
    [
        ({"reasoning_content": "why"}, "why"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"summary": "b"}, 3, {"data": "x"}]}, "a\nb"),
        ({"reasoning_details": "odd", "reasoning_content": 4}, None),
    ],
)
def test_reasoning(join: Join, opaque: dict[str, Any], words: str | None) -> None:
    answer = join([entry(1, **opaque)]).turns[0].answer
    assert answer is not None
    assert (answer.reasoning and answer.reasoning.text) == words


def test_damaged_lines_are_shown(join: Join) -> None:
    """An agent's tools write the log, so its lines may be any objects."""
    odd = [{}, {"step": "one", "call": 3, "result": []}, {"step": 2, "call": {"tool": 5, "arguments": "text"}}]
    assert [one.tool for one in join([], odd).others] == ["", "", "5"]


@pytest.mark.parametrize(
    ("fields", "expanded"),
    [
        ({"exit_code": 0, "stdout": "fine"}, True),
        ({"exit_code": 0, "stdout": "x\n" * 40}, False),
        ({"exit_code": 0, "stdout": "x" * 4000}, False),
        ({"exit_code": 1, "stdout": "x\n" * 40}, True),
    ],
)
def test_long_output_is_folded_unless_the_command_failed(join: Join, fields: dict[str, Any], expanded: bool) -> None:
    shown: ShownCall = join([], [line(1, **fields)]).others[0]
    assert (shown.expanded, shown.failed) == (expanded, fields["exit_code"] != 0)


def test_a_change_that_equals_the_patch_is_shown_once(texts: Texts) -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    change = texts.cut(f"diff --git a/x b/x\nindex 1..2\n{patch}", "")
    same = ShownCall(tool="apply_patch", arguments={"diff": texts.cut(patch, "")}, change=change)
    other = attrs.evolve(same, arguments={"diff": texts.cut(patch.replace("+b", "+c"), "")})
    assert same.shown_change() is None
    assert other.shown_change() == change
