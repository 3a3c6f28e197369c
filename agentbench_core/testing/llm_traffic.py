"""Checks: what reaches a server, what does not, and that calls do not stand in each other's way."""

from __future__ import annotations

import threading

import pytest

from agentbench_core import AttemptStop, Deadline, Interrupted, LLMError, Message, ToolCall
from agentbench_core.testing.answers import calls, says
from agentbench_core.testing.llm_life import expected_calls
from agentbench_core.testing.llm_stage import LOOK, Fault, RemoteHooks, Reply
from agentbench_core.testing.stage import LONG
from agentbench_core.testing.waiting import done_soon, in_thread, soon


class TrafficChecks(RemoteHooks):
    """Requests on their way, one by one and several at once."""

    def test_the_whole_request_is_sent(self) -> None:
        """Model, messages of every role, calls, results, and the tools with all that is said of them."""
        said = Message(
            role="assistant",
            content="assistant-words",
            tool_calls=(ToolCall(tool="look_at", arguments={"path": "argument-word"}, id="one"),),
        )
        planned = self.plan(
            says("yes"),
            Message(role="system", content="system-words"),
            Message(role="user", content="user-words"),
            said,
            Message(role="tool", content="result-words", tool_call_id="one"),
        )
        with self.replies(planned.answer) as remote:
            remote.llm.complete(planned.request, planned.call())
            (body,) = remote.sent()
        words = ["system-words", "user-words", "assistant-words", "argument-word", "result-words", planned.mark]
        words += [self.model, LOOK.name, LOOK.description, "which file", "how many of its lines"]
        assert [word for word in words if word not in body] == []

    def test_an_answer_is_asked_for_once(self) -> None:
        """Whatever it says: words, a refusal, half a sentence. What was paid for is not thrown away."""
        for answer in (says("yes"), says("no", finish="refusal"), says("half", finish="length")):
            planned = self.plan(answer)
            with self.replies(planned.answer) as remote:
                remote.llm.complete(planned.request, planned.call())
                assert len(remote.sent()) == 1

    def test_ids_that_a_server_does_not_give(self) -> None:
        """Blank ones and such that are the same become different ones."""
        wanted = [ToolCall(tool="look_at", arguments={"path": id_}, id=id_) for id_ in ("", "", "same", "same")]
        ids = [call.id for call in self.ask(self.plan(calls(*wanted))).message.tool_calls]
        assert all(ids)
        assert len(set(ids)) == 4

    def test_preflight_asks_for_no_completion(self) -> None:
        """It must not cost anything."""
        with self.replies(says("yes")) as remote:
            remote.llm.preflight(expected_calls(self.model))
            assert remote.sent() == []

    def test_nothing_is_sent_without_time(self) -> None:
        """Neither when it is over, nor when somebody has ended it."""
        planned = self.plan(says("yes"))
        ended = Deadline(LONG)
        ended.end(Interrupted("stop it"))
        with self.replies(planned.answer) as remote:
            for deadline in (Deadline(0.0), ended):
                with pytest.raises(AttemptStop):
                    remote.llm.complete(planned.request, planned.call(deadline))
            assert remote.sent() == []

    def test_a_server_that_hangs(self) -> None:
        """The call ends at its deadline: AttemptStop, and no LLMError."""
        planned = self.plan(says("never"))
        with self.replies(Fault("hang")) as remote, pytest.raises(AttemptStop):
            soon(lambda: remote.llm.complete(planned.request, planned.call(Deadline(0.5))), self.patience)

    def test_interrupting_a_call(self) -> None:
        """Who ends the deadline gets the reason back, soon, while the server still says nothing."""
        planned = self.plan(says("never"))
        deadline = Deadline(LONG)
        arrived = threading.Event()

        def reply(_: int, body: str) -> Reply:
            arrived.set()
            return Fault("hang")

        with self.serving(reply) as remote:
            future = in_thread(lambda: remote.llm.complete(planned.request, planned.call(deadline)))
            assert arrived.wait(self.patience), "nothing was sent"
            deadline.end(Interrupted("stop it"))
            with pytest.raises(Interrupted, match="stop it"):
                done_soon(future, self.patience)

    def test_a_call_that_hangs_is_alone(self) -> None:
        """Others are answered meanwhile, and ``close`` does not wait for it."""
        stuck, other = self.plan(says("never")), self.plan(says("yes"), task_id="other")
        deadline = Deadline(LONG)
        arrived = threading.Event()

        def reply(_: int, body: str) -> Reply:
            if other.mark in body:
                return other.answer
            arrived.set()
            return Fault("hang")

        with self.serving(reply) as remote:
            future = in_thread(lambda: remote.llm.complete(stuck.request, stuck.call(deadline)))
            try:
                assert arrived.wait(self.patience), "nothing was sent"
                answer = soon(lambda: remote.llm.complete(other.request, other.call()), self.patience)
                assert answer.message.content == "yes"
                soon(remote.llm.close, self.patience)
            finally:
                deadline.end(Interrupted("the check is over"))
            with pytest.raises((AttemptStop, LLMError)):
                done_soon(future, self.patience)

    def test_the_key_is_kept(self) -> None:
        """It stands in no body, and in nothing that the provider says of itself."""
        planned = self.plan(says("yes"))
        with self.replies(planned.answer) as remote:
            facts = remote.llm.preflight(expected_calls(self.model))
            answer = remote.llm.complete(planned.request, planned.call())
            shown = [repr(remote.llm), str(remote.llm), repr(facts), repr(answer), *remote.sent()]
        assert [text for text in shown if self.secret in text] == []

    def test_a_server_that_tells_the_key(self) -> None:
        """In the words of its error: they become part of the evidence, without it."""
        for kind in ("auth", "invalid_request", "overloaded"):
            planned = self.plan(says("never"))
            call = planned.call()
            with self.replies(Fault(kind, words=f"not with the key {self.secret} today")) as remote:
                with pytest.raises(LLMError) as caught:
                    soon(lambda: remote.llm.complete(planned.request, call), self.patience)  # noqa: B023 - run here
                shown = [str(caught.value), repr(caught.value), *map(repr, call.failures)]
            assert [text for text in shown if self.secret in text] == []
