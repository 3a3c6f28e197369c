"""Checks: what a provider makes of requests and answers."""

from __future__ import annotations

import copy

import attrs

from agentbench_core import Completion, Message, ToolCall, Usage
from agentbench_core.testing.answers import calls, says
from agentbench_core.testing.llm_stage import LLMHooks
from agentbench_core.testing.waiting import at_once

_NESTED = {"path": "src/größe 'x'.py", "lines": 3, "more": {"deep": [1, 2.5, None, True, "\n\t\\"]}}


class AnswerChecks(LLMHooks):
    """Words, calls, ends, and what is counted."""

    def test_words(self) -> None:
        """They arrive as they are, said by the assistant."""
        text = 'Two lines:\n  "größe" \\n \U0001f600\n'
        answer = self.ask(self.plan(says(text)))
        assert isinstance(answer, Completion)
        assert (answer.message.role, answer.message.content, answer.finish) == ("assistant", text, "stop")
        assert answer.message.tool_calls == ()

    def test_tool_calls(self) -> None:
        """With their names and arguments, in order, beside words or without any."""
        wanted = (ToolCall(tool="look_at", arguments=_NESTED, id="a1"), ToolCall(tool="look_at", arguments={}, id="b2"))
        for text in ("", "I look."):
            answer = self.ask(self.plan(calls(*wanted, text=text)))
            made = [(call.tool, call.arguments, call.problem) for call in answer.message.tool_calls]
            assert made == [("look_at", _NESTED, ""), ("look_at", {}, "")]
            assert (answer.message.content, answer.finish) == (text, "tool_calls")

    def test_calls_have_ids(self) -> None:
        """Each one, no two the same: results are told apart by them."""
        wanted = [ToolCall(tool="look_at", arguments={"path": str(number)}, id=f"c{number}") for number in range(3)]
        ids = [call.id for call in self.ask(self.plan(calls(*wanted))).message.tool_calls]
        assert all(ids)
        assert len(set(ids)) == 3

    def test_usage(self) -> None:
        """Tokens are counted as the server counts them."""
        usage = self.ask(self.plan(says("yes", usage=Usage(prompt_tokens=1234, completion_tokens=56)))).usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (1234, 56)

    def test_the_model_is_named(self) -> None:
        """Which one has answered: what the server says, not what was asked for."""
        assert self.ask(self.plan(says("yes", model=f"{self.model}-2031"))).model == f"{self.model}-2031"

    def test_truncation_is_an_answer(self) -> None:
        """With what had been said by then."""
        answer = self.ask(self.plan(says("half a sen", finish="length")))
        assert (answer.finish, answer.message.content) == ("length", "half a sen")

    def test_refusal_is_an_answer(self) -> None:
        """The model's own: no error, and nothing to try again."""
        assert self.ask(self.plan(says("I will not.", finish="refusal"))).finish == "refusal"

    def test_a_request_that_is_too_long_is_answered(self) -> None:
        """So that an agent can shorten it."""
        assert self.ask(self.plan(says("", finish="context_overflow"))).finish == "context_overflow"

    def test_a_whole_conversation(self) -> None:
        """Every role, calls and their results, one that failed, and a call that could not be read."""
        before = (
            Message(role="system", content="You look at files."),
            Message(role="user", content="Begin."),
            Message(
                role="assistant",
                tool_calls=(
                    ToolCall(tool="look_at", arguments=_NESTED, id="one"),
                    ToolCall(tool="look_at", arguments={}, id="two", problem="the arguments were no JSON"),
                ),
            ),
            Message(role="tool", content="three lines\nof\ntext", tool_call_id="one"),
            Message(role="tool", content="error: malformed_call: the arguments were no JSON", tool_call_id="two"),
            Message(role="assistant", content="I see."),
        )
        assert self.ask(self.plan(says("done"), *before)).message.content == "done"

    def test_its_own_answers_come_back(self) -> None:
        """A message that it gave is part of the next request, with all that is in it."""
        look = ToolCall(tool="look_at", arguments={"path": "x"}, id="one")
        first = self.plan(calls(look, text="I look."))
        result = Message(role="tool", content="text", tool_call_id=look.id)
        second = self.plan(says("done"), *first.request.messages, first.answer.message, result)
        with self.answering([first, second]) as llm:
            said = llm.complete(first.request, first.call()).message
            *before, _, _, last = second.request.messages
            result = attrs.evolve(result, tool_call_id=said.tool_calls[0].id)
            request = attrs.evolve(second.request, messages=(*before, said, result, last))
            assert llm.complete(request, second.call()).message.content == "done"

    def test_no_tools(self) -> None:
        """A request that offers none is a request."""
        assert self.ask(self.plan(says("plain"), tools=())).message.content == "plain"

    def test_one_answer_is_one_exchange(self) -> None:
        """Nothing has failed, nothing was tried again, nobody has waited."""
        planned = self.plan(says("yes"))
        call = planned.call()
        with self.answering([planned]) as llm:
            llm.complete(planned.request, call)
        assert (call.failures, call.exchanges) == ([], 1)

    def test_each_call_gets_its_own_answer(self) -> None:
        """Eight attempts at once."""
        planned = [self.plan(says(f"answer {number}"), task_id=f"task-{number}") for number in range(8)]
        with self.answering(planned) as llm:
            works = [lambda each=each: llm.complete(each.request, each.call()) for each in planned]
            answers = at_once(works, self.patience)
        assert [answer.message.content for answer in answers] == [f"answer {number}" for number in range(8)]

    def test_requests_stay_as_they_were(self) -> None:
        """They are evidence, and part of the next one."""
        call = ToolCall(tool="look_at", arguments={"path": "x", "more": {"a": [1]}}, id="")
        said = Message(role="assistant", tool_calls=(call,), opaque={"details": [{"text": "because"}]})
        planned = self.plan(
            says("yes"), Message(role="user", content="Go."), said, Message(role="tool", content="text")
        )
        before = copy.deepcopy(planned.request)
        self.ask(planned)
        assert planned.request == before
