"""One forwarded request, between the provider's thread and the clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, cast

from agentbench_bridge.protocols import Admitted, Reader
from agentbench_core import Completion, NativeResponse

_PASSED_ON = {
    "cache-control",
    "content-type",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
}
"""Headers of answers that clients may need. Others can describe the account, or belong to the connection."""

_VALUE = re.compile(r"[\x20-\x7e]{1,500}")
_CREDENTIALS = {401, 403}
"""Statuses that concern the host's key, which the client does not have: they are replaced."""


_WITHOUT_BODY = {204, 205}


class ForwardedExchange:
    """Implements ``NativeExchange``: passes bytes on unchanged, and then parses its copy of them."""

    def __init__(self, admitted: Admitted, reader: Reader, answer: NativeResponse) -> None:
        self._admitted = admitted
        self._reader = reader
        self._answer = answer
        self._hidden = False

    @property
    def protocol(self) -> Literal["chat", "responses", "messages"]:
        """See the contract."""
        return cast(Literal["chat", "responses", "messages"], self._admitted.protocol)

    @property
    def path(self) -> str:
        """See the contract."""
        return self._admitted.path

    @property
    def body(self) -> bytes:
        """See the contract."""
        return self._admitted.body

    @property
    def headers(self) -> Mapping[str, str]:
        """See the contract."""
        return self._admitted.headers

    @property
    def has_media(self) -> bool:
        """See the contract."""
        return self._admitted.media

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """See the contract."""
        if not (200 <= status <= 299 or 400 <= status <= 599) or status in _WITHOUT_BODY:
            raise ValueError(f"the status {status} is not an answer to a model request")
        self._hidden = status in _CREDENTIALS
        headers = {name.lower(): value for name, value in headers.items()}
        self._reader.started(status, headers)
        if not self._hidden:
            self._answer.start(status, passed_on(headers))

    def received(self, data: bytes) -> None:
        """See the contract."""
        if not self._hidden:
            self._answer.add(data)  # first, since the client waits for it
        self._reader.received(data)

    def completed(self) -> Completion:
        """See the contract."""
        return self._reader.completed()


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer that clients receive; ``headers`` have lowercase names."""
    kept = {name: value for name, value in headers.items() if name in _PASSED_ON and _VALUE.fullmatch(value)}
    return {"content-type": "application/octet-stream"} | kept
