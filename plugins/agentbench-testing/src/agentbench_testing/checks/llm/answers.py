"""Checks: requests and responses, and the lifetime of a provider."""

from __future__ import annotations

import copy

import attrs
import pytest

from agentbench_core import (
    AttemptStop,
    Completion,
    Deadline,
    ExpectedCalls,
    Interrupted,
    LLMError,
    Message,
    ModelFacts,
    Request,
    ToolCall,
    Usage,
)
from agentbench_testing.checks.llm.stage import LOOK, LLMHooks
from agentbench_testing.doubles.models import calls, says
from agentbench_testing.doubles.observing import LONG, at_once, check_findings, done_soon, in_thread, soon

_NESTED = {"path": "src/größe 'x'.py", "lines": 3, "more": {"deep": [1, 2.5, None, True, "\n\t\\"]}}


class AnswerChecks(LLMHooks):
    """Text, tool calls, finish reasons, and usage."""

    def test_words(self) -> None:
        """Text arrives unchanged, with the role of the assistant."""
        text = 'Two lines:\n  "größe" \\n \U0001f600\n'
        answer = self.ask(self.plan(says(text)))
        assert isinstance(answer, Completion)
        assert (answer.message.role, answer.message.content, answer.finish) == ("assistant", text, "stop")
        assert answer.message.tool_calls == ()

    def test_tool_calls(self) -> None:
        """Tool calls arrive in order with names and arguments, with or without text."""
        wanted = (ToolCall(tool="look_at", arguments=_NESTED, id="a1"), ToolCall(tool="look_at", arguments={}, id="b2"))
        for text in ("", "I look."):
            answer = self.ask(self.plan(calls(*wanted, text=text)))
            made = [(call.tool, call.arguments, call.problem) for call in answer.message.tool_calls]
            assert made == [("look_at", _NESTED, ""), ("look_at", {}, "")]
            assert (answer.message.content, answer.finish) == (text, "tool_calls")

    def test_calls_have_ids(self) -> None:
        """Every call has a unique id, which identifies its result."""
        wanted = [ToolCall(tool="look_at", arguments={"path": str(number)}, id=f"c{number}") for number in range(3)]
        ids = [call.id for call in self.ask(self.plan(calls(*wanted))).message.tool_calls]
        assert all(ids)
        assert len(set(ids)) == 3

    def test_usage(self) -> None:
        """The token counts are the server's."""
        usage = self.ask(self.plan(says("yes", usage=Usage(prompt_tokens=1234, completion_tokens=56)))).usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (1234, 56)

    def test_the_model_is_named(self) -> None:
        """The response names the model that the server reports, not the requested one."""
        assert self.ask(self.plan(says("yes", model=f"{self.model}-2031"))).model == f"{self.model}-2031"

    def test_truncation_is_an_answer(self) -> None:
        """A truncated response is returned, with the text so far."""
        answer = self.ask(self.plan(says("half a sen", finish="length")))
        assert (answer.finish, answer.message.content) == ("length", "half a sen")

    def test_refusal_is_an_answer(self) -> None:
        """A refusal is a response, which is neither an error nor retried."""
        assert self.ask(self.plan(says("I will not.", finish="refusal"))).finish == "refusal"

    def test_a_request_that_is_too_long_is_answered(self) -> None:
        """A request that is too long is reported as ``context_overflow``, so that the agent can shorten it."""
        assert self.ask(self.plan(says("", finish="context_overflow"))).finish == "context_overflow"

    def test_a_whole_conversation(self) -> None:
        """A conversation may contain every role, calls with results, and a call whose arguments were invalid."""
        before = (
            Message(role="system", content="You look at files."),
            Message(role="user", content="Begin."),
            Message(
                role="assistant",
                tool_calls=(
                    ToolCall(tool="look_at", arguments=_NESTED, id="one"),
                    ToolCall(tool="look_at", arguments={}, id="two", problem="the arguments were not valid JSON"),
                ),
            ),
            Message(role="tool", content="three lines\nof\ntext", tool_call_id="one"),
            Message(
                role="tool", content="error: malformed_call: the arguments were not valid JSON", tool_call_id="two"
            ),
            Message(role="assistant", content="I see."),
        )
        assert self.ask(self.plan(says("done"), *before)).message.content == "done"

    def test_its_own_answers_come_back(self) -> None:
        """A returned message can be part of the next request."""
        look = ToolCall(tool="look_at", arguments={"path": "x"}, id="one")
        first = self.plan(calls(look, text="I look."))
        result = Message(role="tool", content="text", tool_call_id=look.id)
        second = self.plan(says("done"), *first.request.messages, first.answer.message, result)
        with self.answering([first, second]) as llm:
            message = llm.complete(first.request, first.call()).message
            *before, _, _, last = second.request.messages
            result = attrs.evolve(result, tool_call_id=message.tool_calls[0].id)
            request = attrs.evolve(second.request, messages=(*before, message, result, last))
            assert llm.complete(request, second.call()).message.content == "done"

    def test_no_tools(self) -> None:
        """A request without tools is valid."""
        assert self.ask(self.plan(says("plain"), tools=())).message.content == "plain"

    def test_one_answer_is_one_exchange(self) -> None:
        """A successful call reports no failed exchange, retry or wait."""
        planned = self.plan(says("yes"))
        call = planned.call()
        with self.answering([planned]) as llm:
            llm.complete(planned.request, call)
        assert (call.failures, call.exchanges) == ([], 1)

    def test_each_call_gets_its_own_answer(self) -> None:
        """Eight parallel attempts each get their own responses."""
        planned = [self.plan(says(f"answer {number}"), task_id=f"task-{number}") for number in range(8)]
        with self.answering(planned) as llm:
            actions = [lambda plan=plan: llm.complete(plan.request, plan.call()) for plan in planned]
            answers = at_once(actions, self.patience)
        assert [answer.message.content for answer in answers] == [f"answer {number}" for number in range(8)]

    def test_requests_stay_as_they_were(self) -> None:
        """The provider does not change a request, since messages become evidence and part of the next request."""
        call = ToolCall(tool="look_at", arguments={"path": "x", "more": {"a": [1]}}, id="")
        message = Message(role="assistant", tool_calls=(call,), opaque={"details": [{"text": "because"}]})
        planned = self.plan(
            says("yes"), Message(role="user", content="Go."), message, Message(role="tool", content="text")
        )
        before = copy.deepcopy(planned.request)
        self.ask(planned)
        assert planned.request == before


def expected_calls(model: str) -> ExpectedCalls:
    """The expected calls that are passed to ``preflight``."""
    request = Request(messages=(), tools=(LOOK,), model=model, max_tokens=256)
    return ExpectedCalls(request=request, workers=4, max_cost_usd=None, deadline=Deadline(LONG))


class LifeChecks(LLMHooks):
    """Preflight, costs, calls after the end of a deadline, and closing."""

    def test_no_time_left(self) -> None:
        """If no time is left, AttemptStop is raised immediately."""
        planned = self.plan(says("too late"))
        with self.answering([planned]) as llm, pytest.raises(AttemptStop):
            soon(lambda: llm.complete(planned.request, planned.call(Deadline(0.0))), self.patience)

    def test_interrupted_before_it_started(self) -> None:
        """The reason for which the deadline was ended is raised unchanged."""
        planned = self.plan(says("too late"))
        deadline = Deadline(LONG)
        deadline.end(Interrupted("stop it"))
        with self.answering([planned]) as llm, pytest.raises(Interrupted, match="stop it"):
            soon(lambda: llm.complete(planned.request, planned.call(deadline)), self.patience)

    def test_preflight(self) -> None:
        """``preflight`` returns known facts about the model; calls work afterwards."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            assert isinstance(llm.preflight(expected_calls(self.model)), ModelFacts)
            assert llm.complete(planned.request, planned.call()).message.content == "yes"

    def test_checks(self) -> None:
        """The checks for ``doctor``, if any, return findings, each with a remedy unless it is ``ok``."""
        with self.answering([]) as llm:
            check_findings(llm)

    def test_a_cost_that_is_not_reported(self) -> None:
        """An unreported cost is ``None`` or computed from prices, since USD limits use it. Only free models cost 0."""
        planned = self.plan(says("yes", usage=Usage(prompt_tokens=1234, completion_tokens=56)))
        with self.answering([planned]) as llm:
            facts = llm.preflight(expected_calls(self.model))
            usage = llm.complete(planned.request, planned.call()).usage
        free = facts.usd_per_million_input == facts.usd_per_million_output == facts.usd_per_request == 0
        assert usage is None or usage.cost_usd != 0 or free

    def test_closing_twice(self) -> None:
        """A second call of ``close`` does nothing, even if no request was sent before."""
        planned = self.plan(says("yes"))
        for ask in (False, True):
            with self.answering([planned]) as llm:
                if ask:
                    llm.complete(planned.request, planned.call())
                llm.close()
                llm.close()

    def test_closing_from_another_thread(self) -> None:
        """The provider may be closed in a different thread from the one that sent requests."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            llm.complete(planned.request, planned.call())
            done_soon(in_thread(llm.close), self.patience)

    def test_a_call_after_closing(self) -> None:
        """A call after ``close`` is answered or fails with LLMError, since a thread may be late."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            llm.close()
            try:
                answer = soon(lambda: llm.complete(planned.request, planned.call()), self.patience)
            except LLMError:
                return
            assert isinstance(answer, Completion)
