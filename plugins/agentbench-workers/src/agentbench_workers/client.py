"""The connection of a worker to its coordinator."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import httpx

from agentbench_core import UnavailableError
from agentbench_workers.refusals import refusal

_CONNECT_SEC = 10.0
_SILENCE_SEC = 20.0
"""Answers that take long have a line every 5 s, so that much silence means a broken connection."""


class Client:
    """Makes calls. Thread-safe; each call in progress has a connection of its own.

    Args:
        address: ``HOST:PORT`` of the coordinator.
        token: the token of the run; empty with TLS.
        context: for TLS; ``None`` on the loopback interface.
    """

    def __init__(self, address: str, token: str, context: ssl.SSLContext | None) -> None:
        scheme = "http" if context is None else "https"
        self._address = address
        self._http = httpx.Client(
            base_url=f"{scheme}://{address}/v1/",
            verify=False if context is None else context,
            trust_env=False,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(_SILENCE_SEC, connect=_CONNECT_SEC, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(self, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Make one call, and yield the documents of its answer.

        Raises:
            OSError: the connection is broken; the call can be repeated.
            UnavailableError: the coordinator refuses the connection, or is another program, and would do so again.
        """
        try:
            content = json.dumps(document).encode()
            with self._http.stream("POST", method, content=content) as response:
                if response.status_code != 200:
                    why = response.read().decode("utf-8", "replace").strip()[:500]
                    raise UnavailableError(f"{self._address} refused the call {method!r}: {why}")
                for line in response.iter_lines():
                    yield self._document(line)
        except httpx.TransportError as error:
            refused = refusal(error)
            if refused is not None:
                raise UnavailableError(f"{self._address}: {refused.message}", remedy=refused.remedy) from None
            raise ConnectionError(f"{self._address}: {str(error) or type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise self._stranger(error) from None

    def _document(self, line: str) -> Mapping[str, Any]:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._stranger(error) from None
        if not isinstance(document, dict):
            raise self._stranger(f"its answer is {line[:50]!r}")
        return document

    def _stranger(self, why: object) -> UnavailableError:
        return UnavailableError(
            f"{self._address} is not a coordinator: {why}", remedy="Check the address and the port of the coordinator."
        )
