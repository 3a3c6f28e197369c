"""Checks: exchanges with a server, and its faults."""

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
"""Errors that may be temporary."""
_TELLING = 0.7
"""The report of a wait is late if it comes this many seconds plus half the wait after the failure."""


class TrafficChecks(RemoteHooks):
    """Requests to the server, the end of calls that hang, and the secrecy of the key."""

    def test_the_whole_request_is_sent(self) -> None:
        """The body contains the model, messages of every role, calls, results, and complete tool definitions."""
        message = Message(
            role="assistant",
            content="assistant-words",
            tool_calls=(ToolCall(tool="look_at", arguments={"path": "argument-word"}, id="one"),),
        )
        planned = self.plan(
            says("yes"),
            Message(role="system", content="system-words"),
            Message(role="user", content="user-words"),
            message,
            Message(role="tool", content="result-words", tool_call_id="one"),
        )
        with self.replies(planned.answer) as remote:
            remote.llm.complete(planned.request, planned.call())
            (body,) = remote.sent()
        words = ["system-words", "user-words", "assistant-words", "argument-word", "result-words", planned.mark]
        words += [self.model, LOOK.name, LOOK.description, "which file", "how many of its lines"]
        assert [word for word in words if word not in body] == []

    def test_an_answer_is_asked_for_once(self) -> None:
        """A response is requested once, whether it is text, a refusal, or truncated: it has been paid for."""
        for answer in (says("yes"), says("no", finish="refusal"), says("half", finish="length")):
            planned = self.plan(answer)
            with self.replies(planned.answer) as remote:
                remote.llm.complete(planned.request, planned.call())
                assert len(remote.sent()) == 1

    def test_ids_that_a_server_does_not_give(self) -> None:
        """Empty or repeated ids of tool calls are replaced by unique ones."""
        wanted = [ToolCall(tool="look_at", arguments={"path": id_}, id=id_) for id_ in ("", "", "same", "same")]
        ids = [call.id for call in self.ask(self.plan(calls(*wanted))).message.tool_calls]
        assert all(ids)
        assert len(set(ids)) == 4

    def test_preflight_asks_for_no_completion(self) -> None:
        """The preflight must not cost anything."""
        with self.replies(says("yes")) as remote:
            remote.llm.preflight(expected_calls(self.model))
            assert remote.sent() == []

    def test_nothing_is_sent_without_time(self) -> None:
        """No request is sent after the end of a deadline."""
        planned = self.plan(says("yes"))
        ended = Deadline(LONG)
        ended.end(Interrupted("stop it"))
        with self.replies(planned.answer) as remote:
            for deadline in (Deadline(0.0), ended):
                with pytest.raises(AttemptStop):
                    remote.llm.complete(planned.request, planned.call(deadline))
            assert remote.sent() == []

    def test_a_server_that_hangs(self) -> None:
        """If the server hangs, the call ends at its deadline with AttemptStop, not LLMError."""
        planned = self.plan(says("never"))
        with self.replies(Fault("hang")) as remote, pytest.raises(AttemptStop):
            soon(lambda: remote.llm.complete(planned.request, planned.call(Deadline(0.5))), self.patience)

    def test_interrupting_a_call(self) -> None:
        """If the deadline is ended while the server does not respond, its reason is raised promptly."""
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

    def test_a_hanging_call_blocks_no_other(self) -> None:
        """While one call hangs, others are answered, and ``close`` does not wait for it."""
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
        """The key is neither in a request body nor in anything that the provider returns."""
        planned = self.plan(says("yes"))
        with self.replies(planned.answer) as remote:
            facts = remote.llm.preflight(expected_calls(self.model))
            answer = remote.llm.complete(planned.request, planned.call())
            shown = [repr(remote.llm), str(remote.llm), repr(facts), repr(answer), *remote.sent()]
        assert [text for text in shown if self.secret in text] == []

    def test_a_server_that_quotes_the_key(self) -> None:
        """The key is removed from a server's error messages, which become evidence."""
        for kind in ("auth", "invalid_request", "overloaded"):
            planned = self.plan(says("never"))
            call = planned.call()
            with self.replies(Fault(kind, words=f"not with the key {self.secret} today")) as remote:
                with pytest.raises(LLMError) as caught:
                    soon(lambda: remote.llm.complete(planned.request, call), self.patience)  # noqa: B023 - run here
                shown = [str(caught.value), repr(caught.value), *map(repr, call.failures)]
            assert [text for text in shown if self.secret in text] == []


class FaultChecks(RemoteHooks):
    """Temporary and permanent outages."""

    def test_temporary_failures_are_retried(self) -> None:
        """A call is retried after an overload, a rate limit or a lost connection, and succeeds."""
        for kind in PASSING:
            call, sent = self._answered(Fault(kind))
            assert (sent, call.exchanges, len(call.failures)) == (2, 2, 1)

    def test_each_exchange_is_reported(self) -> None:
        """A failure is reported first, then the retry. Only then is the retry sent."""
        reports: list[tuple[str, int]] = []
        planned = self.plan(says("at last"))
        with self.replies(*map(Fault, PASSING), planned.answer) as remote:
            call = planned.call(listen=lambda report: reports.append((report.what, len(remote.sent()))))
            answer = soon(lambda: remote.llm.complete(planned.request, call), self.patience)
        assert answer.message.content == "at last"
        failures = [entry for entry in reports if entry[0] != "waiting"]
        assert failures == [("failed", 1), ("again", 1), ("failed", 2), ("again", 2), ("failed", 3), ("again", 3)]

    def test_an_exchange_that_must_not_be_sent(self) -> None:
        """If ``start_exchange`` raises, for example because the budget is used up, nothing more is sent."""
        planned = self.plan(says("never"))
        with self.replies(Fault("overloaded")) as remote:
            call = planned.call(exchanges=2, refusal=Interrupted("no more"))
            with pytest.raises(Interrupted, match="no more"):
                soon(lambda: remote.llm.complete(planned.request, call), self.patience)
            assert (len(remote.sent()), len(call.failures)) == (2, 2)

    def test_persistent_failures_raise(self) -> None:
        """If a fault persists, LLMError is raised after some retries. Every failure is reported; the run continues."""
        for kind in (*PASSING, "garbage"):
            call, sent, error = self._refused(Fault(kind))
            assert sent == call.exchanges == len(call.failures)
            assert 1 <= sent <= 20
            assert not error.stops_run

    def test_a_request_that_is_refused(self) -> None:
        """If a request is refused, LLMError contains the server's message, and the run continues."""
        call, sent, error = self._refused(Fault("invalid_request", words="no such thing as a tool"))
        assert sent == call.exchanges == len(call.failures)
        assert sent <= 3
        assert not error.stops_run
        assert "no such thing as a tool" in str(error)

    def test_a_key_that_is_refused(self) -> None:
        """If the key is refused, LLMError is raised immediately and ends the run, since no other call can succeed."""
        call, sent, error = self._refused(Fault("auth"))
        assert (sent, len(call.failures), error.stops_run) == (1, 1, True)

    def test_no_credit(self) -> None:
        """If no credit is left, LLMError is raised immediately and ends the run."""
        call, sent, error = self._refused(Fault("credits"))
        assert (sent, len(call.failures), error.stops_run) == (1, 1, True)

    def test_a_server_with_a_retry_hint(self) -> None:
        """The server's retry hint is respected. The wait is reported before it starts and given back to the attempt."""
        call, _ = self._answered(Fault("rate_limited", retry_after=2.0))
        failed, again = (next(shown.at for shown in call.told if shown.what == what) for what in ("failed", "again"))
        waits = [shown for shown in call.told if shown.what == "waiting"]
        assert again - failed >= 1.8, "the provider retried too soon"
        assert sum(shown.seconds for shown in waits) >= 1.8, "the provider did not report its wait"
        late = [shown for shown in waits if shown.at - failed > _TELLING + shown.seconds / 2]
        assert late == [], "the provider reported its wait too late"

    def test_interrupting_a_wait(self) -> None:
        """If the deadline is ended while the provider waits for a retry, its reason is raised promptly."""
        planned = self.plan(says("never"))
        deadline = Deadline(LONG + 10 * self.patience)
        waits = threading.Event()

        def listen(report: Told) -> None:
            if report.what == "waiting":
                waits.set()

        with self.replies(Fault("rate_limited", retry_after=2 * self.patience)) as remote:
            call = planned.call(deadline, listen=listen)
            future = in_thread(lambda: remote.llm.complete(planned.request, call))
            assert waits.wait(self.patience), "the provider did not wait"
            deadline.end(Interrupted("stop it"))
            with pytest.raises(Interrupted, match="stop it"):
                done_soon(future, self.patience)
            assert len(remote.sent()) == 1

    def test_good_calls_after_bad_ones(self) -> None:
        """After a failed call, the next one works if the server does."""
        bad, good = self.plan(says("never")), self.plan(says("yes"))

        def reply(_: int, body: str) -> Reply:
            return good.answer if good.mark in body else Fault("invalid_request")

        with self.serving(reply) as remote:
            with pytest.raises(LLMError):
                soon(lambda: remote.llm.complete(bad.request, bad.call()), self.patience)
            answer = soon(lambda: remote.llm.complete(good.request, good.call()), self.patience)
            assert answer.message.content == "yes"

    def _answered(self, *faults: Fault) -> tuple[CallDouble, int]:
        """A call that succeeds after some faults, and the number of requests seen by the server."""
        planned = self.plan(says("at last"))
        call = planned.call()
        with self.replies(*faults, planned.answer) as remote:
            requested_wait = sum(fault.retry_after or 0.0 for fault in faults)
            answer = soon(lambda: remote.llm.complete(planned.request, call), self.patience + requested_wait)
            assert answer.message.content == "at last"
            return call, len(remote.sent())

    def _refused(self, fault: Fault) -> tuple[CallDouble, int, LLMError]:
        """A call to a server that always fails, the number of requests, and the exception."""
        planned = self.plan(says("never"))
        call = planned.call()
        with self.replies(fault) as remote:
            with pytest.raises(LLMError) as caught:
                soon(lambda: remote.llm.complete(planned.request, call), self.patience)
            return call, len(remote.sent()), caught.value
