"""The conversation of an agent with its model: messages, their order, and what is dropped when it grows too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

from agentbench_core import (
    AgentTurnStarted,
    BudgetExceeded,
    Completion,
    Conversation,
    Deadline,
    Message,
    ModelFacts,
    Request,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolSpec,
    Usage,
    load,
    option,
)
from agentbench_core.builtin.agents.conversation import shown
from agentbench_testing import ContextDouble, calls, open_workbench, says
from agentbench_testing.checks.agent.stage import unpaired
from agentbench_testing.doubles.models import tokens_of

Make = Callable[..., AbstractContextManager[ContextDouble]]


@attrs.frozen(kw_only=True)
class PrintArguments:
    size: int = option(help="how many characters")
    mark: str = option("", help="what they begin with")


class Print:
    """A tool that prints the requested number of characters."""

    spec = ToolSpec.of("print", "Print.", PrintArguments)

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        wanted = load(arguments, PrintArguments, where="print")
        return ToolResult.success(text=wanted.mark.ljust(wanted.size, "."))


def prints(size: int, mark: str = "") -> ToolCall:
    return ToolCall(tool="print", arguments={"size": size, "mark": mark})


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    """Create a context whose only tool prints."""
    with open_workbench() as workbench:
        yield partial(workbench.context, files={}, failing_command="false", tools=[Print()])


def roles(messages: tuple[Message, ...]) -> list[str]:
    return [message.role for message in messages]


def test_requests_contain_the_whole_conversation(make: Make) -> None:
    """Requests contain the system prompt, messages, answers and results in order, and everything before."""
    with make([calls(prints(3, "ab"), text="I print."), "Done."]) as double:
        chat = Conversation(double.context, "Be good.")
        chat.add_user("Begin.")
        (result,) = chat.call_tools(chat.complete())
        answer = chat.complete()
        first, second = double.requests
    assert roles(first.messages) == ["system", "user"]
    assert [message.content for message in first.messages] == ["Be good.", "Begin."]
    assert [tool.name for tool in first.tools] == ["print"]
    assert second.messages[:2] == first.messages
    assert [message.content for message in second.messages[2:]] == ["I print.", "text: ab.\n[left: 29 steps]"]
    assert second.messages[3].tool_call_id == second.messages[2].tool_calls[0].id != ""
    assert result.fields == {"text": "ab."}
    assert answer.message.content == "Done."
    assert chat.messages == (*second.messages, answer.message)


def test_turns_are_counted_and_emitted(make: Make) -> None:
    """Each request to the model is a turn."""
    with make(["One.", "Two."]) as double:
        chat = Conversation(double.context, "Be good.")
        chat.complete()
        chat.complete()
        assert (
            [event.turn for event in double.events if isinstance(event, AgentTurnStarted)] == [1, 2] == [1, chat.turns]
        )


def test_remaining_budget_is_added_once_per_answer(make: Make) -> None:
    """The remaining budget follows the last result of an answer, if there is a limit."""
    with make([calls(prints(1), prints(2))], max_steps=5, max_tokens=100_000) as double:
        chat = Conversation(double.context, "Be good.")
        chat.call_tools(chat.complete())
        used = double.budget.tokens
    assert [message.content.partition("[left: ")[2] for message in chat.messages[2:]] == [
        "",
        f"3 steps, {100_000 - used} tokens]",
    ]
    with make([calls(prints(1))], max_steps=None) as double:
        chat = Conversation(double.context, "Be good.")
        chat.call_tools(chat.complete())
    assert chat.messages[-1].content == "text: ."


def test_empty_answer_is_not_sent_back(make: Make) -> None:
    """Some servers reject a message without text and calls."""
    with make([says("", finish="empty"), "Well."]) as double:
        chat = Conversation(double.context, "Be good.")
        chat.add_user("Begin.")
        assert chat.complete().finish == "empty"
        chat.add_user("Go on.")
        chat.complete()
        assert roles(double.requests[1].messages) == ["system", "user", "user"]


def test_opaque_provider_data_is_sent_back(make: Make) -> None:
    """Opaque provider data is returned unchanged."""
    opaque = {"reasoning_details": [{"text": "because", "signature": "x/y="}]}
    said = Message(role="assistant", content="Hm.", opaque=opaque)
    with make([attrs.evolve(says(""), message=said), "Done."]) as double:
        chat = Conversation(double.context, "Be good.")
        chat.complete()
        chat.add_user("Go on.")
        chat.complete()
        assert double.requests[1].messages[1] == said


def test_agent_specific_tools(make: Make) -> None:
    """An agent may offer tools that are not in the toolbox, or none, and answers their calls itself."""
    report = ToolSpec(name="report", description="Tell.", parameters={"type": "object", "properties": {}})
    told = ToolCall(tool="report", arguments={}, id="r1")
    with make([calls(told), "Done."]) as double:
        chat = Conversation(double.context, "Be good.", tools=[report])
        answer = chat.complete()
        chat.add_tool_result(answer.message.tool_calls[0], ToolResult.failure("bad_report", "say more"))
        chat.complete()
        assert double.requests[0].tools == (report,)
        assert unpaired(double.last_messages) == ""
        assert double.last_messages[-1].content == "error: bad_report: say more"
        assert double.trace.tool_calls == []
        assert Conversation(double.context, "Be good.", tools=()).messages == (
            Message(role="system", content="Be good."),
        )


def test_a_call_that_cannot_be_made(make: Make) -> None:
    """The result is the reason: unreadable arguments, unknown tools, refusals."""
    bad = (
        ToolCall(tool="print", arguments={}, problem="no JSON: line 1"),
        ToolCall(tool="paint", arguments={}),
        ToolCall(tool="print", arguments={"size": "many"}),
    )
    with make([calls(*bad), "Done."]) as double:
        chat = Conversation(double.context, "Be good.")
        results = chat.call_tools(chat.complete())
        chat.complete()
        told = [message.content for message in double.last_messages if message.role == "tool"]
        assert unpaired(double.last_messages) == ""
    assert [result.error_type for result in results] == ["malformed_call", "unknown_tool", "bad_arguments"]
    assert told[0] == "error: malformed_call: no JSON: line 1"
    assert told[1].startswith("error: unknown_tool: there is no tool 'paint' (did you mean 'print'?)")
    assert "size: expected integer" in told[2]


def test_oldest_output_is_dropped_first(make: Make) -> None:
    """When the window is full, the oldest output is dropped and newer output stays complete."""
    window = ModelFacts(context_tokens=1000, answer_tokens=100)
    with make([calls(prints(1200, f"output {number}")) for number in range(5)], facts=window) as double:
        chat = Conversation(double.context, "Be good.")
        for _ in range(4):
            chat.call_tools(chat.complete())
        chat.complete()
        outputs = [message.content for message in double.last_messages if message.role == "tool"]
        assert unpaired(double.last_messages) == ""
    assert outputs[0].startswith("[12")
    assert "characters of output dropped: the conversation grew too long]" in outputs[0]
    assert outputs[-1].startswith("text: output 3")
    assert len(outputs[-1]) > 1200
    dropped = ["dropped" in output for output in outputs]
    assert dropped == sorted(dropped, reverse=True)
    assert roles(double.last_messages)[:2] == ["system", "assistant"]


def test_new_output_that_is_too_long_keeps_its_beginning(make: Make) -> None:
    """New output that is too long by itself is truncated, so that the model sees its start."""
    with make([calls(prints(40_000, "the beginning")), "Done."], facts=ModelFacts(context_tokens=2000)) as double:
        chat = Conversation(double.context, "Be good.")
        chat.call_tools(chat.complete())
        chat.complete()
        (output,) = [message.content for message in double.last_messages if message.role == "tool"]
    assert output.startswith("text: the beginning...")
    assert output.endswith("dropped: the conversation grew too long]")
    assert len(output) < 300


def test_room_for_the_answer(make: Make) -> None:
    """The window is shared by the prompt and the answer."""
    for answer_tokens, whole in ((0, True), (400, True), (600, False)):
        facts = ModelFacts(context_tokens=1000, answer_tokens=answer_tokens)
        with make([calls(prints(1500, "output")), "Done."], facts=facts) as double:
            chat = Conversation(double.context, "Be good.")
            chat.call_tools(chat.complete())
            chat.complete()
            assert ("dropped" not in double.last_messages[-1].content) == whole


@pytest.mark.parametrize("answer_tokens", [800, 1000, 5000])
def test_room_for_the_question(make: Make, answer_tokens: int) -> None:
    """A quarter of the window is reserved for the prompt, even if the answer may be as long as the window."""
    facts = ModelFacts(context_tokens=1000, answer_tokens=answer_tokens)
    with make([calls(prints(1000, "output"), usage=Usage(prompt_tokens=1)), "Done."], facts=facts) as double:
        chat = Conversation(double.context, "Be good.")
        chat.call_tools(chat.complete())
        chat.complete()
        assert "dropped" not in double.last_messages[-1].content


def test_truncatable_messages_are_dropped(make: Make) -> None:
    """Truncatable messages are dropped like tool output, oldest first, except their first line; other messages stay."""
    facts = ModelFacts(context_tokens=1500, answer_tokens=100)
    with make([*["Hm."] * 4, "Done."], facts=facts) as double:
        chat = Conversation(double.context, "Be good.")
        chat.add_user("These words stay. " * 30)
        for number in range(4):
            chat.complete()
            chat.add_user(f"`make {number}` fails:\n\n" + "x" * 1500, truncatable=True)
        chat.complete()
        _, words, *said = [message.content for message in double.last_messages if message.role != "assistant"]
    assert words == "These words stay. " * 30
    assert said[0] == "`make 0` fails:\n[1502 characters of output dropped: the conversation grew too long]"
    assert said[-1] == "`make 3` fails:\n\n" + "x" * 1500
    dropped = ["dropped" in message for message in said]
    assert dropped == sorted(dropped, reverse=True)


def test_messages_and_results_are_dropped_by_age(make: Make) -> None:
    """Truncatable messages and tool output are dropped together, oldest first."""
    with make([*[calls(prints(1200))] * 3, "Done."], facts=ModelFacts(context_tokens=1700)) as double:
        chat = Conversation(double.context, "Be good.")
        for _ in range(3):
            chat.call_tools(chat.complete())
            chat.add_user("It prints:\n" + "x" * 1200, truncatable=True)
        chat.complete()
        assert unpaired(double.last_messages) == ""
        outputs = [message.content for message in double.last_messages if message.role in ("tool", "user")]
    dropped = ["dropped" in output for output in outputs]
    assert dropped == sorted(dropped, reverse=True)
    assert 0 < sum(dropped) < len(dropped)


def test_one_call_object_twice(make: Make) -> None:
    """Both calls have a result, and the remaining budget is shown once."""
    call = attrs.evolve(prints(1), id="same")
    with make([calls(call, call)]) as double:
        chat = Conversation(double.context, "Be good.")
        chat.call_tools(chat.complete())
    assert ["left" in message.content for message in chat.messages[2:]] == [False, True]


def test_missing_usage_keeps_the_token_estimate(make: Make) -> None:
    """Without usage, the estimate of the token length is unchanged."""

    class Silent:
        facts = ModelFacts()

        def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
            return says("Done.")

    with make([]) as double:
        chat = Conversation(attrs.evolve(double.context, llm=Silent()), "Be good.")
        assert chat.complete().usage is None


def test_window_set_by_the_agent(make: Make) -> None:
    """It applies only if the model's window is unknown."""
    for facts, window, whole in (
        (ModelFacts(), None, True),
        (ModelFacts(), 1000, False),
        (ModelFacts(context_tokens=100_000), 1000, True),
    ):
        with make([calls(prints(6000, "output")), "Done."], facts=facts) as double:
            chat = Conversation(double.context, "Be good.", window=window)
            chat.call_tools(chat.complete())
            chat.complete()
            assert ("dropped" not in double.last_messages[-1].content) == whole


@pytest.mark.parametrize(
    ("tokens", "size", "window", "whole"),
    [
        (100, 3000, 2000, True),
        (10_000, 3000, 2000, False),
        (1, 17_000, 2000, False),  # at most eight bytes per token, whatever the server reports
        (10**9, 3000, 4000, True),  # and at least one
    ],
)
def test_bytes_per_token_are_learned_from_usage(make: Make, tokens: int, size: int, window: int, whole: bool) -> None:
    """Bytes per token are learned from the reported usage, within limits."""
    first = calls(prints(size, "output"), usage=Usage(prompt_tokens=tokens))
    with make([first, "Done."]) as double:
        chat = Conversation(double.context, "Be good.", window=window)
        chat.call_tools(chat.complete())
        chat.complete()
        assert ("dropped" not in double.last_messages[-1].content) == whole


def test_a_request_that_was_too_long(make: Make) -> None:
    """Older output is dropped and the model is asked again, in the same turn."""
    over = says("", finish="context_overflow")
    many = [calls(prints(3000, f"output {number}")) for number in range(4)]
    with make([*many, over, over, "Done."]) as double:
        chat = Conversation(double.context, "Be good.")
        for _ in many:
            chat.call_tools(chat.complete())
        assert chat.complete().message.content == "Done."
        assert chat.turns == 5
        sizes = [tokens_of(request) for request in double.requests[-3:]]
        assert sizes[0] / 2 > sizes[1] - 200
        assert sizes == sorted(set(sizes), reverse=True)
        assert [unpaired(request.messages) for request in double.requests] == [""] * 7


def test_nothing_left_to_drop(make: Make) -> None:
    """The overflow is returned, and messages of users and models are kept."""
    with make(lambda _: says("", finish="context_overflow")) as double:
        chat = Conversation(double.context, "Be good.")
        chat.add_user("Begin. " * 1000)
        assert chat.complete().finish == "context_overflow"
        assert len(double.requests) == 1
        assert roles(chat.messages) == ["system", "user"]


def test_end_of_the_budget_is_not_caught(make: Make) -> None:
    """The conversation does not catch the end of the budget."""
    with make([calls(prints(1), prints(1), prints(1))], max_steps=2) as double:
        chat = Conversation(double.context, "Be good.")
        answer = chat.complete()
        with pytest.raises(BudgetExceeded):
            chat.call_tools(answer)
        assert len(double.trace.tool_calls) == 3
    with make(["Hm.", "Hm."], max_tokens=1) as double:
        chat = Conversation(double.context, "Be good.")
        chat.complete()
        with pytest.raises(BudgetExceeded):
            chat.complete()


def test_without_a_model(make: Make) -> None:
    """The error names the missing capability."""
    with make() as double, pytest.raises(AssertionError, match="needs_llm"):
        Conversation(double.context, "Be good.")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult.success(), "done"),
        (ToolResult.success(exit_code=0, stdout="one\ntwo\n", stderr=""), "exit_code: 0\nstdout:\none\ntwo\nstderr: "),
        (ToolResult.success(paths=["a", "b"], omitted=0), "paths:\n  a\n  b\nomitted: 0"),
        (ToolResult.success(matches=()), "matches: none"),
        (ToolResult.success(moved={"a": [1]}, more=False, what=None), "moved: a: [1]\nmore: False\nwhat: None"),
        (ToolResult.success(items=[{"a": 1, "b": "x"}]), "items:\n  a: 1, b: x"),
        (ToolResult.failure("not_found", "'x' does not exist"), "error: not_found: 'x' does not exist"),
    ],
)
def test_how_results_are_shown(result: ToolResult, text: str) -> None:
    """Text is shown unchanged, and lists line by line."""
    assert shown(result) == text


TURNS = some.lists(
    some.tuples(
        some.lists(some.integers(min_value=0, max_value=6000), max_size=4),
        some.sampled_from(["", "I look.", "größe" * 50]),
        some.sampled_from(["", "Go on."]),
        some.integers(min_value=0, max_value=6000),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS, window=some.integers(min_value=300, max_value=8000))
def test_any_conversation_stays_consistent(
    make: Make, turns: list[tuple[list[int], str, str, int]], window: int
) -> None:
    """In any conversation, calls keep their results, the order is kept, and messages are never dropped.

    A request is only too long if it has no more output to drop.
    """
    answers = [calls(*map(prints, sizes), text=text) for sizes, text, _, _ in turns]
    facts = ModelFacts(context_tokens=window, answer_tokens=50)
    with make([*answers, "Done."], facts=facts, max_steps=None) as double:
        chat = Conversation(double.context, "Be good.")
        words = ["Be good."]
        for _, text, spoken, told in turns:
            answer = chat.complete()
            words += [text] if text and answer.finish != "context_overflow" else []
            chat.call_tools(answer)
            if spoken:
                chat.add_user(spoken)
                words.append(spoken)
            if told:
                chat.add_user("It prints:\n" + "x" * told, truncatable=True)
                words.append("It prints:")
        last = chat.complete()
        for request in double.requests:
            assert unpaired(request.messages) == ""
        kept = [message.content for message in chat.messages if message.role != "tool" and message.content]
        said = last.message.content
        assert [text.partition("\n")[0] for text in kept] == [*words, *([said] if said else [])]
        if last.finish == "context_overflow":
            assert all(len(message.content) <= 400 for message in chat.messages if message.role in ("tool", "user"))
