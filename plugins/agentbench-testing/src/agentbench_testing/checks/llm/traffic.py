"""Checks: exchanges with a server, and what becomes of its faults."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from agentbench_core import AttemptStop, Deadline, Interrupted, LLMError, Message, ToolCall
from agentbench_testing.checks.llm.answers import expected_calls
from agentbench_testing.checks.llm.stage import LOOK, Fault, FaultKind, RemoteHooks, Reply
from agentbench_testing.doubles.models import CallDouble, Told, calls, says
from agentbench_testing.doubles.observing import LONG, done_soon, in_thread, soon

PASSING: Sequence[FaultKind] = ("overloaded", "rate_limited", "reset")
"""What may be over in a moment."""
_TELLING = 0.7
"""Seconds that a provider may take between a failure and telling that it waits."""


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


class FaultChecks(RemoteHooks):
    """Outages that pass, and such that do not."""

    def test_what_passes_is_tried_again(self) -> None:
        """An overloaded server, a rate limit, a connection that was cut: the answer comes in the end."""
        for kind in PASSING:
            call, sent = self._answered(Fault(kind))
            assert (sent, call.exchanges, len(call.failures)) == (2, 2, 1)

    def test_each_exchange_is_told(self) -> None:
        """First how one failed, then that one more will be sent, and only then it is sent."""
        seen: list[tuple[str, int]] = []
        planned = self.plan(says("at last"))
        with self.replies(*map(Fault, PASSING), planned.answer) as remote:
            call = planned.call(listen=lambda told: seen.append((told.what, len(remote.sent()))))
            answer = soon(lambda: remote.llm.complete(planned.request, call), self.patience)
        assert answer.message.content == "at last"
        told = [each for each in seen if each[0] != "waiting"]
        assert told == [("failed", 1), ("again", 1), ("failed", 2), ("again", 2), ("failed", 3), ("again", 3)]

    def test_an_exchange_that_must_not_be_sent(self) -> None:
        """``again`` raises, for instance because the money is used up: that passes, and nothing is sent."""
        planned = self.plan(says("never"))
        with self.replies(Fault("overloaded")) as remote:
            call = planned.call(exchanges=2, refusal=Interrupted("no more"))
            with pytest.raises(Interrupted, match="no more"):
                soon(lambda: remote.llm.complete(planned.request, call), self.patience)
            assert (len(remote.sent()), len(call.failures)) == (2, 2)

    def test_what_does_not_pass(self) -> None:
        """LLMError after some tries, the last one told too; it does not end the run."""
        for kind in (*PASSING, "garbage"):
            call, sent, error = self._refused(Fault(kind))
            assert sent == call.exchanges == len(call.failures)
            assert 1 <= sent <= 20
            assert not error.stops_run

    def test_a_request_that_is_refused(self) -> None:
        """LLMError, told; other calls may do better. What the server says of it is said."""
        call, sent, error = self._refused(Fault("invalid_request", words="no such thing as a tool"))
        assert sent == call.exchanges == len(call.failures)
        assert sent <= 3
        assert not error.stops_run
        assert "no such thing as a tool" in str(error)

    def test_a_key_that_is_refused(self) -> None:
        """LLMError at once, which ends the run: no other call can do better."""
        call, sent, error = self._refused(Fault("auth"))
        assert (sent, len(call.failures), error.stops_run) == (1, 1, True)

    def test_no_credit(self) -> None:
        """The same."""
        call, sent, error = self._refused(Fault("credits"))
        assert (sent, len(call.failures), error.stops_run) == (1, 1, True)

    def test_a_server_that_says_when(self) -> None:
        """It is left alone for so long, and the attempt gets that time back: told before, not after."""
        call, _ = self._answered(Fault("rate_limited", retry_after=2.0))
        failed, again = (next(told.at for told in call.told if told.what == what) for what in ("failed", "again"))
        waits = [told for told in call.told if told.what == "waiting"]
        assert again - failed >= 1.8, "it asked again too soon"
        assert sum(told.seconds for told in waits) >= 1.8, "it did not tell that it waits"
        late = [told for told in waits if told.at - failed > _TELLING + told.seconds / 2]
        assert late == [], "it told that it waits when it had waited"

    def test_interrupting_a_wait(self) -> None:
        """Who ends the deadline while the provider waits to try again gets the reason back, soon."""
        planned = self.plan(says("never"))
        deadline = Deadline(LONG + 10 * self.patience)
        waits = threading.Event()

        def listen(told: Told) -> None:
            if told.what == "waiting":
                waits.set()

        with self.replies(Fault("rate_limited", retry_after=2 * self.patience)) as remote:
            call = planned.call(deadline, listen=listen)
            future = in_thread(lambda: remote.llm.complete(planned.request, call))
            assert waits.wait(self.patience), "it did not wait"
            deadline.end(Interrupted("stop it"))
            with pytest.raises(Interrupted, match="stop it"):
                done_soon(future, self.patience)
            assert len(remote.sent()) == 1

    def test_good_calls_after_bad_ones(self) -> None:
        """A provider that has given up on one call works for the next one, when the server does."""
        bad, good = self.plan(says("never")), self.plan(says("yes"))

        def reply(_: int, body: str) -> Reply:
            return good.answer if good.mark in body else Fault("invalid_request")

        with self.serving(reply) as remote:
            with pytest.raises(LLMError):
                soon(lambda: remote.llm.complete(bad.request, bad.call()), self.patience)
            answer = soon(lambda: remote.llm.complete(good.request, good.call()), self.patience)
            assert answer.message.content == "yes"

    def _answered(self, *faults: Fault) -> tuple[CallDouble, int]:
        """A call that is answered after some faults, and how many requests the server saw."""
        planned = self.plan(says("at last"))
        call = planned.call()
        with self.replies(*faults, planned.answer) as remote:
            asked_for = sum(fault.retry_after or 0.0 for fault in faults)
            answer = soon(lambda: remote.llm.complete(planned.request, call), self.patience + asked_for)
            assert answer.message.content == "at last"
            return call, len(remote.sent())

    def _refused(self, fault: Fault) -> tuple[CallDouble, int, LLMError]:
        """A call to a server that always fails so: what it was told, how often it asked, and what was raised."""
        planned = self.plan(says("never"))
        call = planned.call()
        with self.replies(fault) as remote:
            with pytest.raises(LLMError) as caught:
                soon(lambda: remote.llm.complete(planned.request, call), self.patience)
            return call, len(remote.sent()), caught.value
