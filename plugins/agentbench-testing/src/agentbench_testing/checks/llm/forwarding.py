"""Checks: requests that are forwarded in the protocol of an agent's own client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

import pytest

from agentbench_core import AttemptStop, Completion, Deadline, Interrupted, LLMError, Message, Request, Usage
from agentbench_testing.checks.llm.stage import Fault, RawReply, Remote, RemoteHooks, Reply
from agentbench_testing.doubles.models import CallDouble
from agentbench_testing.doubles.native import NativeDouble
from agentbench_testing.doubles.observing import LONG, done_soon, in_thread, soon


def _event(content: str) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": content}}]}).encode()


_FIRST = _event("one ")
_USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.125}}\n\n'
_STREAM = b": a comment\n\n" + _FIRST + b"data:  " + _event("t\u00e4wo")[6:] + _USAGE + b"data: [DONE]\n\n"
_PLAIN = _FIRST + _USAGE + b"data: [DONE]\n\n"
_WHOLE = b'{ "choices": [{"message": {"content": "whole"}}],  "usage": {"prompt_tokens": 1, "completion_tokens": 2} }\n'
_MINE = "of-the-agent"
_HEADERS: Mapping[str, str] = {
    "authorization": f"Bearer {_MINE}",
    "x-api-key": _MINE,
    "host": f"{_MINE}.example",
    "content-length": "1",
    "x-lines": f"a\r\nauthorization: {_MINE}",
    "anthropic-version": "2023-06-01",
}


class ForwardingChecks(RemoteHooks):
    """The request, the response while it arrives, and failures. ``Remote.headers`` is required.

    The requests are Chat Completions. The server of ``serving`` must support :class:`RawReply`.
    """

    def test_a_forwarded_request_is_sent_unchanged(self) -> None:
        """Every byte of the body arrives unchanged, including whitespace and unknown fields."""
        native = self._native()
        with self.replies(RawReply(body=_STREAM)) as remote:
            self._ask(remote, native)
            assert list(remote.sent()) == [native.body.decode()]

    def test_headers_of_a_forwarded_request(self) -> None:
        """The agent's headers are sent, but none that replaces the key or host, or smuggles in another header."""
        with self.replies(RawReply(body=_STREAM)) as remote:
            self._ask(remote, self._native(_HEADERS))
            (headers,) = remote.headers()
        assert headers.get("anthropic-version") == "2023-06-01"
        assert [name for name, value in headers.items() if _MINE in value] == []
        assert any(self.secret in value for value in headers.values())

    def test_a_forwarded_response_arrives_as_it_was_sent(self) -> None:
        """``started`` is called once, before any data. All bytes of a stream or document follow in order."""
        for body, kind, piece in ((_STREAM, "text/event-stream", 7), (_WHOLE, "application/json", 0)):
            native = _Ordered(self._body())
            with self.replies(RawReply(body=body, content_type=kind, piece=piece)) as remote:
                self._ask(remote, native)
            assert native.received_body == body
            assert [status for status, _ in native.starts] == [200]
            assert native.starts[0][1].get("content-type", "").startswith(kind)
            assert native.is_ordered

    def test_a_forwarded_response_is_not_held_back(self) -> None:
        """The first event of a stream is passed on before the second one exists."""
        arrived = threading.Event()
        native = self._native(listen=lambda _: arrived.set())
        deadline = Deadline(LONG)
        with self.replies(RawReply(body=_FIRST, ends="hanging")) as remote:
            call = CallDouble(native=native, deadline=deadline)
            future = in_thread(lambda: remote.llm.complete(self._request(), call))
            is_here = arrived.wait(self.patience)
            deadline.end(Interrupted("the check is over"))
        with pytest.raises((AttemptStop, LLMError)):
            done_soon(future, self.patience)
        assert is_here, "nothing was passed on"
        assert native.received_body == _FIRST

    def test_interrupting_a_forwarded_response(self) -> None:
        """If the deadline is ended while the response arrives, its reason is raised promptly."""
        arrived = threading.Event()
        native = self._native(listen=lambda _: arrived.set())
        deadline = Deadline(LONG)
        with self.replies(RawReply(body=_FIRST, ends="hanging")) as remote:
            call = CallDouble(native=native, deadline=deadline)
            future = in_thread(lambda: remote.llm.complete(self._request(), call))
            assert arrived.wait(self.patience), "nothing was passed on"
            deadline.end(Interrupted("stop it"))
            with pytest.raises(Interrupted, match="stop it"):
                done_soon(future, self.patience)
        assert len(call.failures) == 1, "the exchange was not reported"

    def test_a_forwarded_response_is_read_by_its_protocol(self) -> None:
        """The result is what ``completed`` returns, called once, after the last byte."""
        native = self._native()
        with self.replies(RawReply(body=_STREAM)) as remote:
            completion = self._ask(remote, native)
        assert completion.message.content == "one t\u00e4wo"
        assert completion.usage == Usage(prompt_tokens=3, completion_tokens=4, cost_usd=0.125)
        assert native.ended == 1

    def test_only_the_last_forwarded_response_is_passed_on(self) -> None:
        """A failure that is retried does not reach the agent. Each exchange is reported."""
        for kind in ("overloaded", "rate_limited", "reset"):
            native = self._native()
            call = CallDouble(native=native)
            with self.replies(Fault(kind), RawReply(body=_PLAIN)) as remote:
                soon(lambda: remote.llm.complete(self._request(), call), self.patience)  # noqa: B023 - run here
            assert [status for status, _ in native.starts] == [200]
            assert native.received_body == _PLAIN
            assert (call.exchanges, len(call.failures)) == (2, 1)

    def test_a_forwarded_failure_that_remains(self) -> None:
        """After the retries, the last error response is passed on once, and LLMError is raised."""
        native = self._native()
        error, call = self._refused(Fault("overloaded", words="come back later"), native)
        assert len(native.starts) == 1
        assert (native.status or 0) >= 400
        assert b"come back later" in native.received_body
        assert len(call.failures) == call.exchanges
        assert not error.stops_run

    def test_a_forwarded_request_that_is_rejected(self) -> None:
        """The rejection is passed on as a response, without a retry: the agent's client can correct its request."""
        native = self._native()
        call = CallDouble(native=native)
        with self.replies(Fault("invalid_request", words="no such field")) as remote:
            completion = soon(lambda: remote.llm.complete(self._request(), call), self.patience)
            assert len(remote.sent()) == 1
        assert completion.finish == "rejected"
        assert native.status == 400
        assert b"no such field" in native.received_body
        assert call.failures == []

    def test_a_key_that_is_rejected_when_forwarding(self) -> None:
        """Errors about the key are not passed on, since they may quote it. The run stops."""
        for kind in ("auth", "credits"):
            native = self._native()
            error, call = self._refused(Fault(kind, words=f"not with {self.secret}"), native)
            assert native.starts == []
            assert native.pieces == []
            assert error.stops_run
            assert self.secret not in f"{error!r} {call.failures}"

    def test_a_forwarded_response_that_breaks_off(self) -> None:
        """The request is not repeated, since part of the response was passed on. Its cost is unknown."""
        native = self._native()
        error, call = self._refused(RawReply(body=_FIRST, ends="broken"), native)
        assert native.received_body == _FIRST
        assert len(native.starts) == 1
        assert [failure.usage for failure in call.failures] == [None]
        assert call.exchanges == 1
        assert not error.stops_run

    def test_a_forwarded_response_that_is_malformed(self) -> None:
        """If ``completed`` raises ValueError, the call fails with LLMError, and the exchange is reported."""
        error, call = self._refused(RawReply(body=_FIRST), self._native())
        assert [failure.usage for failure in call.failures] == [None]
        assert not error.stops_run

    def test_a_forwarded_response_with_the_key(self) -> None:
        """The response is cut off before the key, even if it arrives in pieces. The error does not show the key."""
        body = _FIRST + _event(f"the key is {self.secret}, and so on") + b"data: [DONE]\n\n"
        for piece in (0, 5):
            native = self._native()
            error, call = self._refused(RawReply(body=body, piece=piece), native)
            assert native.received_body == body[: body.index(self.secret.encode())]
            assert self.secret not in f"{error!r} {call.failures}"
            assert not error.stops_run

    @classmethod
    def _body(cls) -> bytes:
        fields = {"model": cls.model, "stream": True, "messages": [{"role": "user", "content": "h\u00e4llo"}]}
        return json.dumps(fields, ensure_ascii=False, indent=3).encode()

    @classmethod
    def _native(
        cls, headers: Mapping[str, str] | None = None, listen: Callable[[bytes], None] = lambda _: None
    ) -> NativeDouble:
        return NativeDouble(cls._body(), headers=headers, listen=listen)

    @classmethod
    def _request(cls) -> Request:
        return Request(messages=(Message(role="user", content="h\u00e4llo"),), model=cls.model, max_tokens=256)

    def _ask(self, remote: Remote, native: NativeDouble) -> Completion:
        return soon(lambda: remote.llm.complete(self._request(), CallDouble(native=native)), self.patience)

    def _refused(self, reply: Reply, native: NativeDouble) -> tuple[LLMError, CallDouble]:
        call = CallDouble(native=native)
        with self.replies(reply) as remote, pytest.raises(LLMError) as caught:
            soon(lambda: remote.llm.complete(self._request(), call), self.patience)
        return caught.value, call


class _Ordered(NativeDouble):
    """Notices data before ``started``, and after ``completed``."""

    is_ordered = True

    def received(self, data: bytes) -> None:
        self.is_ordered = self.is_ordered and len(self.starts) == 1 and not self.ended
        super().received(data)
