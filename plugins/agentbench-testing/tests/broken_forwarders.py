"""A provider that forwards requests to a server in memory, and variants that are each broken in one respect."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agentbench_core import (
    AttemptStop,
    Completion,
    FailedExchange,
    LLMCall,
    LLMError,
    Message,
    NativeExchange,
    Request,
    Usage,
)
from agentbench_testing import Fault, ForwardingLLMConformance, RawReply, Remote, Reply

TICK = 0.01
STATUS = {"rate_limited": 429, "overloaded": 529, "auth": 401, "credits": 402, "invalid_request": 400}


class BrokenOffError(Exception):
    """The connection was lost."""


@attrs.frozen
class Answer:
    """A response that arrives in pieces."""

    status: int
    kind: str
    pieces: Iterator[bytes]


class MemoryServer:
    """A server in memory that sends bytes."""

    def __init__(self, reply: Callable[[int, str], Reply]) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.over = threading.Event()
        self._reply = reply

    def post(self, body: bytes, headers: Mapping[str, str], still_wanted: Callable[[], object]) -> Answer:
        self.bodies.append(body)
        self.headers.append(headers)
        reply = self._reply(len(self.bodies), body.decode())
        if isinstance(reply, Fault):
            if reply.kind not in STATUS:
                raise BrokenOffError(reply.words)
            error = json.dumps({"error": {"message": reply.words}}).encode()
            return Answer(STATUS[reply.kind], "application/json", iter([error]))
        assert isinstance(reply, RawReply)
        return Answer(200, reply.content_type, self._pieces(reply, still_wanted))

    def _pieces(self, reply: RawReply, still_wanted: Callable[[], object]) -> Iterator[bytes]:
        size = reply.piece or len(reply.body)
        for start in range(0, len(reply.body), size):
            yield reply.body[start : start + size]
        while reply.ends == "hanging" and not self.over.wait(TICK):
            still_wanted()
        if reply.ends != "complete":
            raise BrokenOffError("the connection was lost")


class CarefulForwarder:
    """A correct provider for forwarded requests; doubles override one method each."""

    tries = 3

    def __init__(self, server: MemoryServer, key: str) -> None:
        self.server = server
        self._key = key

    def complete(self, request: Request, call: LLMCall) -> Completion:
        assert call.native is not None
        native = call.native
        for number in range(1, self.tries + 1):
            last = number == self.tries
            try:
                answer = self.post(native, call)
                if answer.status < 400:
                    return self.pass_on(answer, native, call)
                body = b"".join(answer.pieces)
                if answer.status == 400:
                    return self.rejected(answer, body, native, call)
            except BrokenOffError as error:
                self.fail(call, str(error), last or self.is_over(native))
            else:
                self.refuse(answer, body, native, call, last=last)
            call.start_exchange()
        raise AssertionError("never reached")

    def post(self, native: NativeExchange, call: LLMCall) -> Answer:
        return self.server.post(self.body(native), self.headers(native), lambda: self.check(call))

    def check(self, call: LLMCall) -> None:
        try:
            call.deadline.check()
        except AttemptStop:
            call.failed(FailedExchange(error="timeout"))
            raise

    def body(self, native: NativeExchange) -> bytes:
        return native.body

    def headers(self, native: NativeExchange) -> Mapping[str, str]:
        theirs = {name: value for name, value in native.headers.items() if name == "anthropic-version"}
        return {**theirs, "host": "localhost", "authorization": f"Bearer {self._key}"}

    def is_over(self, native: NativeExchange) -> bool:
        return bool(getattr(native, "starts", ()))

    def fail(self, call: LLMCall, message: str, last: bool, *, stops_run: bool = False) -> None:
        message = message.replace(self._key, "[key]")
        call.failed(FailedExchange(error="transient", message=message))
        if last:
            raise LLMError(message, stops_run=stops_run)

    def rejected(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall) -> Completion:
        self.send(answer, body, native)
        return native.completed()

    def refuse(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall, *, last: bool) -> None:
        about_key = answer.status in (401, 402)
        if last and not about_key:
            self.send(answer, body, native)
        self.fail(call, body.decode(), last or about_key, stops_run=about_key)

    def send(self, answer: Answer, body: bytes, native: NativeExchange) -> None:
        native.started(answer.status, {"content-type": answer.kind})
        native.received(body)

    def pass_on(self, answer: Answer, native: NativeExchange, call: LLMCall) -> Completion:
        native.started(answer.status, {"content-type": answer.kind})
        return self.finish(native, call, found=self.copy(answer.pieces, native))

    def finish(self, native: NativeExchange, call: LLMCall, *, found: bool) -> Completion:
        if found:
            self.fail(call, "the response contained the key", last=True)
        try:
            return self.result(native)
        except ValueError as error:
            self.fail(call, str(error), last=True)
            raise

    def result(self, native: NativeExchange) -> Completion:
        return native.completed()

    def copy(self, pieces: Iterator[bytes], native: NativeExchange) -> bool:
        """Pass the pieces on; whether they contain the key."""
        key, held = self._key.encode(), b""
        for piece in pieces:
            data = held + piece
            if key in data:
                native.received(data[: data.index(key)])
                return True
            size = next((n for n in range(len(key) - 1, 0, -1) if data.endswith(key[:n])), 0)
            native.received(data[: len(data) - size])
            held = data[len(data) - size :]
        native.received(held)
        return False

    def preflight(self, expected: object) -> object:
        raise NotImplementedError

    def close(self) -> None:
        pass


def on(llm_type: type[CarefulForwarder], seconds: float = 1.0) -> type[ForwardingLLMConformance]:
    """The checks for such a provider, with short timeouts."""

    class OnDouble(ForwardingLLMConformance):
        patience = seconds

        @classmethod
        @contextlib.contextmanager
        def serving(cls, reply: Callable[[int, str], Reply]) -> Iterator[Remote]:
            server = MemoryServer(reply)
            llm = llm_type(server, cls.secret)
            try:
                yield Remote(
                    llm=llm,  # type: ignore[arg-type]  # no preflight
                    sent=lambda: [body.decode() for body in server.bodies],
                    headers=lambda: list(server.headers),
                )
            finally:
                server.over.set()

    return OnDouble


class WritesJsonAnew(CarefulForwarder):
    """Sends equal JSON instead of the same bytes."""

    def body(self, native: NativeExchange) -> bytes:
        return json.dumps(json.loads(native.body)).encode()


class SendsAllHeaders(CarefulForwarder):
    """Lets headers of the agent replace its own."""

    def headers(self, native: NativeExchange) -> Mapping[str, str]:
        return {**super().headers(native), **native.headers}


class SendsNoHeaders(CarefulForwarder):
    """Ignores the headers of the agent."""

    def headers(self, native: NativeExchange) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self._key}"}


class NormalizesSpace(CarefulForwarder):
    """Passes on equal data instead of the same bytes."""

    def copy(self, pieces: Iterator[bytes], native: NativeExchange) -> bool:
        return super().copy((piece.replace(b"  ", b" ") for piece in pieces), native)


class StartsLate(CarefulForwarder):
    """Calls ``started`` after the data."""

    def pass_on(self, answer: Answer, native: NativeExchange, call: LLMCall) -> Completion:
        try:
            found = self.copy(answer.pieces, native)
        finally:
            native.started(answer.status, {"content-type": answer.kind})
        return self.finish(native, call, found=found)


class CollectsResponses(CarefulForwarder):
    """Passes a response on when it is complete."""

    def copy(self, pieces: Iterator[bytes], native: NativeExchange) -> bool:
        return super().copy(iter([b"".join(pieces)]), native)


class IgnoresTheDeadline(CarefulForwarder):
    """Does not check the deadline while the response arrives."""

    def check(self, call: LLMCall) -> None:
        pass


class HidesInterruptions(CarefulForwarder):
    """Does not report the exchange if it is interrupted."""

    def check(self, call: LLMCall) -> None:
        call.deadline.check()


class ReadsByItself(CarefulForwarder):
    """Returns its own reading of the response."""

    def result(self, native: NativeExchange) -> Completion:
        native.completed()
        return Completion(message=Message(role="assistant", content="fine"), usage=Usage())


class PassesFailuresOn(CarefulForwarder):
    """Passes on responses that it then retries."""

    def refuse(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall, *, last: bool) -> None:
        if not last and answer.status not in (401, 402):
            self.send(answer, body, native)
        super().refuse(answer, body, native, call, last=last)


class TriesOnce(CarefulForwarder):
    """Never retries."""

    tries = 1


class KeepsTheLastFailure(CarefulForwarder):
    """Does not pass on the last failure."""

    def refuse(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall, *, last: bool) -> None:
        self.fail(call, body.decode(), last or answer.status in (401, 402), stops_run=answer.status in (401, 402))


class FailsRejectedRequests(CarefulForwarder):
    """Treats a rejected request as a failure."""

    def rejected(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall) -> Completion:
        self.fail(call, body.decode(), last=True)
        raise AssertionError("never reached")


class QuotesRejectedKeys(CarefulForwarder):
    """Passes on errors about the key."""

    def refuse(self, answer: Answer, body: bytes, native: NativeExchange, call: LLMCall, *, last: bool) -> None:
        if answer.status == 401:
            self.send(answer, body, native)
        super().refuse(answer, body, native, call, last=last)


class RepeatsBrokenResponses(CarefulForwarder):
    """Retries a response that has begun."""

    def is_over(self, native: NativeExchange) -> bool:
        return False


class LetsErrorsThrough(CarefulForwarder):
    """Lets a ValueError of ``completed`` through."""

    def finish(self, native: NativeExchange, call: LLMCall, *, found: bool) -> Completion:
        if found:
            self.fail(call, "the response contained the key", last=True)
        return native.completed()


class LooksAtEachPiece(CarefulForwarder):
    """Does not find a key that arrives in pieces."""

    def copy(self, pieces: Iterator[bytes], native: NativeExchange) -> bool:
        for piece in pieces:
            data, found, _ = piece.partition(self._key.encode())
            native.received(data)
            if found:
                return True
        return False


DOUBLES: Mapping[str, type[CarefulForwarder]] = {
    "test_a_forwarded_request_is_sent_unchanged": WritesJsonAnew,
    "test_headers_of_a_forwarded_request": SendsAllHeaders,
    "test_a_forwarded_response_arrives_as_it_was_sent": NormalizesSpace,
    "test_a_forwarded_response_is_not_held_back": CollectsResponses,
    "test_interrupting_a_forwarded_response": IgnoresTheDeadline,
    "test_a_forwarded_response_is_read_by_its_protocol": ReadsByItself,
    "test_only_the_last_forwarded_response_is_passed_on": PassesFailuresOn,
    "test_a_forwarded_failure_that_remains": KeepsTheLastFailure,
    "test_a_forwarded_request_that_is_rejected": FailsRejectedRequests,
    "test_a_key_that_is_rejected_when_forwarding": QuotesRejectedKeys,
    "test_a_forwarded_response_that_breaks_off": RepeatsBrokenResponses,
    "test_a_forwarded_response_that_is_malformed": LetsErrorsThrough,
    "test_a_forwarded_response_with_the_key": LooksAtEachPiece,
}

MORE: Sequence[tuple[str, type[CarefulForwarder]]] = (
    ("test_headers_of_a_forwarded_request", SendsNoHeaders),
    ("test_a_forwarded_response_arrives_as_it_was_sent", StartsLate),
    ("test_interrupting_a_forwarded_response", HidesInterruptions),
    ("test_only_the_last_forwarded_response_is_passed_on", TriesOnce),
)
"""More doubles, for checks of several things."""

ALSO: Mapping[str, set[str]] = {
    "CollectsResponses": {"test_interrupting_a_forwarded_response", "test_a_forwarded_response_that_breaks_off"},
    "PassesFailuresOn": {"test_a_forwarded_failure_that_remains"},
}
"""Checks that fail on a double besides those it is for, because they require the same thing."""
