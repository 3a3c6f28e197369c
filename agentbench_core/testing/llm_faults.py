"""Checks: a server fails, and the provider tells each exchange, tries again where that helps, and gives up in time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from agentbench_core import Deadline, Interrupted, LLMError
from agentbench_core.testing.answers import CallDouble, Told, says
from agentbench_core.testing.llm_stage import Fault, FaultKind, RemoteHooks, Reply
from agentbench_core.testing.stage import LONG
from agentbench_core.testing.waiting import done_soon, in_thread, soon

PASSING: Sequence[FaultKind] = ("overloaded", "rate_limited", "reset")
"""What may be over in a moment."""
_TELLING = 0.25
"""Seconds that a provider may take between a failure and telling that it waits."""


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
