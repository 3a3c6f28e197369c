"""Calls in progress and their stored answers, so that a client's retry is not sent to the provider again."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

import attrs

from agentbench_bridge.gateway.spool import Answer

MOST_STORED = 64
"""Maximum number of stored answers of an attempt."""
STORED_SEC = 600.0
"""Seconds for which an answer is stored."""
STORED_BYTES = 64 * 1024 * 1024
"""Maximum bytes of an attempt's stored answers."""


def fingerprint(path: str, body: bytes) -> bytes:
    """Identifies equal requests of an attempt."""
    return hashlib.sha256(path.encode(errors="replace") + b"\0" + body).digest()


@attrs.define(kw_only=True, eq=False)
class Call:
    """One request for the provider, and the clients that wait for its answer."""

    key: bytes  #: fingerprint of the request
    repeat_key: str  #: the client's idempotency key, or empty
    answer: Answer  #: its answer
    clients: int = 0  #: number of clients that read the answer now
    sent: int = 0  #: the maximum number of bytes of the answer that a client received
    ended_at: float = 0.0  #: monotonic time of the answer's end; 0.0 before

    @property
    def is_orphaned(self) -> bool:
        """Whether all clients have disconnected before receiving the whole answer."""
        return not self.clients and (not self.ended_at or self.sent < self.answer.size)


class Calls:
    """The calls of an attempt. Used in the event loop only.

    A request joins an equal earlier call if it is marked as a retry (``x-stainless-retry-count`` above 0), has the same
    idempotency key, or if the clients of the call have disconnected before receiving the whole answer: otherwise, these
    calls would be paid for twice. Equal requests without such a reason are separate calls. Calls that failed are
    forgotten, so a retry is a new call.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls: OrderedDict[Call, None] = OrderedDict()

    def find(self, key: bytes, *, retried: bool, repeat_key: str) -> Call | None:
        """The call that a request joins; the latest one if there are several."""
        self._forget_old()
        for call in reversed(self._calls):
            if call.key != key:
                continue
            same = bool(repeat_key) and call.repeat_key == repeat_key
            if same or (retried and not (repeat_key and call.repeat_key)) or call.is_orphaned:
                return call
        return None

    def add(self, call: Call) -> None:
        """A new call."""
        self._calls[call] = None

    def ended(self, call: Call) -> None:
        """Store the complete answer of a call, unless it failed or its status requests a retry."""
        status = call.answer.status
        if call.answer.failure or status in (408, 409, 429) or status >= 500:
            self._calls.pop(call, None)
            return
        call.ended_at = self._clock()
        self._forget_old()

    def _forget_old(self) -> None:
        stored = [call for call in self._calls if call.ended_at]
        size = sum(call.answer.size for call in stored)
        left = len(stored)
        for call in stored:
            if left <= MOST_STORED and size <= STORED_BYTES and self._clock() - call.ended_at < STORED_SEC:
                return
            del self._calls[call]
            size -= call.answer.size
            left -= 1
