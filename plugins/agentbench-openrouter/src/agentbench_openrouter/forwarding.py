"""Forwards requests in the protocol of an agent's own client, and passes the responses on while they arrive.

Nothing is passed on before it is known whether the exchange must be retried: the whole body of an error, or the first
event of a stream. From then on, the response cannot be replaced any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import Completion, Deadline, FailedExchange, LLMCall, LLMError, NativeExchange, Usage
from agentbench_openrouter.answers import Reader, Response
from agentbench_openrouter.client import Arriving, Client
from agentbench_openrouter.exchange import ExchangeError
from agentbench_openrouter.failures import Blame, Failure, Retry, failure_of, not_sent, outcome
from agentbench_openrouter.gate import Gate
from agentbench_openrouter.native_headers import request_headers, response_headers
from agentbench_openrouter.opening import FirstEvent, error_in, json_object
from agentbench_openrouter.pages import SettingError
from agentbench_openrouter.retrying import Retrying
from agentbench_openrouter.timing import Timing

MAX_STREAM_BYTES = 64 << 20
"""Maximum size of a response that is passed on."""
HELD_BYTES = 1 << 20
"""Maximum size of a response that is held back to find out whether it is an error."""
FIRST_EVENT_BYTES = 64 << 10
"""Maximum size of the beginning of a stream that is held back."""
_COUNT_TOKENS = "messages/count_tokens"
PATHS = ("chat/completions", "responses", "messages", _COUNT_TOKENS)

_HIDDEN = (401, 402)
"""Errors about the key: their text may quote it, and the agent cannot act on them."""
_WITHOUT_ENDPOINT = (404, 405, 501)


@attrs.define(kw_only=True)
class Forwarding:
    """Forwards requests to one server. Thread-safe."""

    client: Client
    retrying: Retrying
    reader: Reader
    timing: Timing
    exchange_timeout_sec: float
    served: set[str] = attrs.field(factory=set)
    """The paths that the server is known to have, because it has answered them successfully."""

    def complete(self, native: NativeExchange, call: LLMCall, total: Deadline) -> Completion:
        """Forward a request, and pass the response on.

        Raises:
            LLMError: no response, or one that broke off. The last error response of the server is passed on first.
            AttemptStop: the call's deadline has passed.
        """
        if native.path not in PATHS:
            message = f"cannot forward a request to {native.path[:100]!r}"
            call.failed(FailedExchange(error="not_sent", message=message, usage=Usage(cost_usd=0.0)))
            raise LLMError(message, remedy=f"Use one of these paths: {', '.join(PATHS)}.")
        return _Forward(rules=self, native=native, call=call, total=total).complete()


@attrs.frozen(kw_only=True)
class _Held:
    """A response that has not been passed on."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.define(kw_only=True)
class _Forward:
    rules: Forwarding
    native: NativeExchange
    call: LLMCall
    total: Deadline
    held: _Held | None = None
    """The last response, if it is an error that the agent may see."""
    started: bool = False
    """Whether a response is passed on."""

    def complete(self) -> Completion:
        try:
            result = self.rules.retrying.complete(self._exchange, self.call, self.total)
        except LLMError:
            if self.held is not None and not self.started:
                self._start(self.held, None)
            raise
        if self.started:
            return result
        # A failure that counts as a response, after all retries.
        final = self._answer(result)
        if isinstance(final, Failure):
            self.call.failed(final.exchange)
            raise LLMError(f"{self.rules.retrying.where}: {final.message}", remedy=final.remedy)
        return final

    def _exchange(self) -> Completion | Failure:
        self.held = None
        remaining = max(self.total.remaining(), 0.001)
        try:
            return self.rules.client.stream(
                self.native.path,
                self.native.body,
                self._receive,
                headers=request_headers(self.native.headers),
                seconds=min(self.rules.exchange_timeout_sec, remaining),
                most=remaining,
                deadline=self.call.deadline,
            )
        except ExchangeError as error:
            failure = failure_of(error)
        except SettingError as error:
            return not_sent(error)
        return self._broken_off(failure) if self.started else failure

    def _broken_off(self, failure: Failure) -> Completion | Failure:
        """The result of a response that broke off after part of it was passed on. It cannot be repeated, but it is
        complete if only the end of the connection is missing."""
        try:
            return self.native.completed()
        except ValueError:
            return _final(failure.error, failure.message, remedy=failure.remedy)

    def _receive(self, arriving: Arriving) -> Completion | Failure:
        encoding = arriving.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            return _final("protocol", f"the response has the encoding {encoding[:50]!r}, which was not requested")
        if arriving.status >= 300:
            return self._failed_status(arriving)
        if "event-stream" in arriving.headers.get("content-type", "").lower():
            return self._stream(arriving)
        return self._document(arriving)

    def _failed_status(self, arriving: Arriving) -> Completion | Failure:
        body = bytearray()
        for chunk in arriving.chunks:
            body += chunk
            if len(body) > HELD_BYTES:
                raise ExchangeError("too_long", f"the error is longer than {HELD_BYTES >> 20} MiB")
        return self._judged(arriving, bytes(body))

    def _document(self, arriving: Arriving) -> Completion | Failure:
        body = bytearray()
        for chunk in arriving.chunks:
            body += chunk
            if len(body) > HELD_BYTES:  # too long for an error
                return self._pass_on(arriving, bytes(body), arriving.chunks)
        data = json_object(bytes(body))
        if data is None:
            return self._read(arriving, bytes(body))
        error = error_in(data)
        if error is not None:
            return self._judged(arriving, bytes(body), error)
        return self._pass_on(arriving, bytes(body), None)

    def _stream(self, arriving: Arriving) -> Completion | Failure:
        first, begun = FirstEvent(), bytearray()
        for chunk in arriving.chunks:
            begun += chunk
            first.feed(chunk)
            if first.error is not None:
                return self._judged(arriving, bytes(begun), first.error)
            if first.known or len(begun) > FIRST_EVENT_BYTES:
                return self._pass_on(arriving, bytes(begun), arriving.chunks)
        return Failure(
            error="protocol",
            message="the stream ended before its first event",
            status=arriving.status,
            retry=Retry.TRANSIENT,
        )

    def _read(self, arriving: Arriving, body: bytes, data: Mapping[str, Any] | None = None) -> Completion | Failure:
        response = Response(status=arriving.status, headers=arriving.headers, body=body)
        return self.rules.reader.read(response, wall=self.rules.timing.wall(), data=data)

    def _judged(self, arriving: Arriving, body: bytes, error: Mapping[str, Any] | None = None) -> Completion | Failure:
        """Decide about an error: pass it on, or hold it back and try again.

        Args:
            arriving: the response.
            body: the bytes to pass on.
            error: the JSON with the error, if it is not the body.
        """
        result = self._read(arriving, body, error)
        status = arriving.status
        if isinstance(result, Completion) and status in _HIDDEN:
            return _final("auth", f"status {status}")
        self.held = _Held(status=status, headers=arriving.headers, body=body)
        if isinstance(result, Completion):
            return self._answer(result)
        if self.rules.served and (status in _WITHOUT_ENDPOINT or (status == 403 and result.error == "auth")):
            # The server and the key work for other requests, so this request caused the error.
            self.held = attrs.evolve(self.held, status=400 if status == 403 else status)
            return self._answer(outcome("rejected", result.message, result.usage or Usage(cost_usd=0.0)))
        if result.error in ("auth", "credits") or status in _HIDDEN or 300 <= status < 400:
            self.held = None
            return result
        path = self.native.path
        if status in _WITHOUT_ENDPOINT and path != _COUNT_TOKENS:
            url = f"{self.rules.client.base_url}/{path}"
            return attrs.evolve(
                result,
                message=f"{url}: {result.message or 'no message'}",
                blame=Blame.NOTHING,
                remedy=f"Check the base URL and the model. Does this server support {_PROTOCOLS[path]}?",
            )
        if result.error != "invalid_request":
            return result
        counts_as = result.outcome or outcome("rejected", result.message, result.usage)
        if result.retry in (Retry.NEVER, Retry.SHORTER):  # the agent's request must not be changed
            return self._answer(counts_as)
        return attrs.evolve(result, outcome=counts_as)

    def _answer(self, counts_as: Completion) -> Completion | Failure:
        """Pass on an error that counts as a response."""
        if self.held is None:
            return counts_as
        problem = self._start(self.held, None)
        if problem is not None:
            return problem
        try:
            completion = self.native.completed()
        except ValueError:  # an error inside a stream
            completion = counts_as
        return completion if completion.usage is not None else attrs.evolve(completion, usage=counts_as.usage)

    def _pass_on(self, arriving: Arriving, begun: bytes, further: Iterator[bytes] | None) -> Completion | Failure:
        """Pass on a response that has been read in part or completely."""
        self.rules.served.add(self.native.path)
        held = _Held(status=arriving.status, headers=arriving.headers, body=begun)
        problem = self._start(held, further)
        if problem is not None:
            return problem
        try:
            return self.native.completed()
        except ValueError as error:
            return _final("protocol", self.rules.client.pages.shown(str(error)) or "the response is incomplete")

    def _start(self, held: _Held, further: Iterator[bytes] | None) -> Failure | None:
        """Pass on a response. Returns a failure if it contains a secret or is too long.

        Args:
            held: the response, or its beginning.
            further: the rest of the body; ``None`` if ``held`` is complete. In that case, nothing is passed on if
                ``held`` contains a secret.
        """
        patterns = self.rules.client.credentials.patterns()
        headers = response_headers(held.headers)
        gate = Gate(patterns)
        known = [value.encode() for value in headers.values()]
        if further is None:
            known.append(held.body)
        if any(pattern in text for pattern in patterns for text in known):
            return _SECRET
        self.started = True
        self.native.started(held.status, headers)
        size = 0
        for chunk in itertools.chain((held.body,), further or ()):
            size += len(chunk)
            if size > MAX_STREAM_BYTES:
                return _final("protocol", f"the response is longer than {MAX_STREAM_BYTES >> 20} MiB")
            passed = gate.feed(chunk)
            if passed:
                self.native.received(passed)
            if gate.found:
                return _SECRET
        rest = gate.rest()
        if rest:
            self.native.received(rest)
        return None


_PROTOCOLS = {"chat/completions": "Chat Completions", "responses": "Responses", "messages": "Messages"}


def _final(error: str, message: str, remedy: str = "") -> Failure:
    """A failure that is not retried, and whose cost is unknown."""
    return Failure(error=error, message=message, remedy=remedy)


_SECRET = _final(
    "secret", "the response contained a key and was cut off before it", "Check the server: it must not send keys."
)
