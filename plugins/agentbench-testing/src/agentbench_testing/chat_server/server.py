"""A real HTTP server on loopback with OpenRouter's API; a responder selects its replies.

It serves Chat Completions, Responses and Messages below ``/api/v1`` and, for clients that are configured with the root,
below ``/v1``.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentbench_testing.chat_server.catalogue import (
    DEFAULT_MODEL,
    KEY,
    cost_of,
    counted,
    model,
    models_page,
    price_of,
    prompt_tokens_of,
)
from agentbench_testing.chat_server.listening import Arrival, Listener
from agentbench_testing.chat_server.protocols import PATHS, in_protocol
from agentbench_testing.chat_server.replies import ABSENT, COUNTED, Reply, error

PREFIX = "/api/v1"
_OTHER_PREFIX = "/v1"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    number: int
    """From 1, in order of arrival."""
    method: str
    path: str
    """Relative to the base URL, such as ``/chat/completions``; including the query."""
    headers: Mapping[str, str]
    """Names are lowercase."""
    body: Any
    """Parsed JSON; ``None`` if it is not JSON."""
    raw: bytes
    """The raw body."""
    at: float
    """``time.monotonic()`` after the request was read."""
    connection: int
    """The number of its connection, from 1."""


Responder = Callable[[Mapping[str, Any], Seen], Reply]
"""Maps a request for a completion, in any protocol, to a reply. Called in many threads at once."""

_NOTHING_HERE = Reply(status=404, json={"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})
_NO_KEY = error(401, "No auth credentials found")
_NO_OBJECT = error(400, 'Input required: specify "prompt" or "messages"')
_COUNT_TOKENS = "/messages/count_tokens"


class LoopbackServer:
    """Listens on 127.0.0.1 inside its ``with`` block. Thread-safe.

    ``responder`` may be replaced at any time. If a responder raises, the client gets a 500, and leaving the block
    raises the exception: an error in a test must not look like an error of the client.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        models: Sequence[Mapping[str, Any] | str] | None = (DEFAULT_MODEL,),
        key: Mapping[str, Any] | None = KEY,
        require_key: str | None = None,
        generations: bool = True,
        port: int = 0,
    ) -> None:
        """Prepare a server.

        Args:
            responder: replies to requests for a completion; see :func:`.answer`, :func:`.error` and :mod:`.responders`.
            models: entries of ``/models`` (see :func:`.model`), or just names; ``None``: 404, as on some servers.
            key: the response of ``/key``; ``None``: 404, as on all servers but OpenRouter.
            require_key: the only accepted key; requests without it get a 401. ``None``: no key is required.
            generations: whether ``/generation?id=`` returns the cost and tokens of an earlier response.
            port: 0 selects a free port.
        """
        self.responder = responder
        self._models = None if models is None else [model(m) if isinstance(m, str) else dict(m) for m in models]
        self._pricing = {entry["id"]: entry.get("pricing") or {} for entry in self._models or ()}
        self._key = key
        self._require_key = require_key
        self._generations = generations
        self._lock = threading.Lock()
        self._received: list[Seen] = []
        self._bills: dict[str, dict[str, Any]] = {}
        self._costs: list[float] = []
        self._problem: BaseException | None = None
        self._listener = Listener(port, self._reply_to)

    @property
    def base_url(self) -> str:
        """The base URL for clients: ``http://127.0.0.1:PORT/api/v1``."""
        return f"http://127.0.0.1:{self._listener.port}{PREFIX}"

    @property
    def requests(self) -> list[Seen]:
        """All requests, in order of arrival."""
        with self._lock:
            return list(self._received)

    @property
    def root_url(self) -> str:
        """The base URL for clients that add ``/v1`` themselves: ``http://127.0.0.1:PORT``."""
        return self.base_url.removesuffix(PREFIX)

    @property
    def chat_requests(self) -> list[Seen]:
        """The requests for a chat completion, in order."""
        return [seen for seen in self.requests if seen.path == "/chat/completions"]

    @property
    def model_requests(self) -> list[Seen]:
        """The requests for a completion in any protocol, in order."""
        return [seen for seen in self.requests if urlsplit(seen.path).path in PATHS]

    @property
    def billed_usd(self) -> float:
        """Total cost in US dollars of all replies to requests for a completion, whether or not they arrived."""
        with self._lock:
            return math.fsum(self._costs)

    @property
    def most_at_once(self) -> int:
        """The largest number of requests that were processed at the same time."""
        return self._listener.most_at_once

    def __enter__(self) -> LoopbackServer:
        self._listener.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._listener.close()
        if self._problem is not None and kind is None:
            raise self._problem

    def _reply_to(self, arrival: Arrival) -> Reply:
        """Record a request, and return the reply to it."""
        seen = self._enter(arrival)
        url = urlsplit(seen.path)
        request = seen.body if isinstance(seen.body, dict) else {}
        reply = self._selected(url.path, parse_qs(url.query), seen)
        protocol_path = "/messages" if url.path == _COUNT_TOKENS else url.path
        return in_protocol(reply, protocol_path, request) if protocol_path in PATHS else reply

    def _selected(self, path: str, query: Mapping[str, Sequence[str]], seen: Seen) -> Reply:
        """The reply to a request, in the format of Chat Completions."""
        if self._require_key is not None and self._require_key not in _keys(seen.headers):
            return _NO_KEY
        if seen.method == "GET":
            return self._page(path, query, seen)
        if seen.method != "POST" or not (path in PATHS or path == _COUNT_TOKENS):
            return _NOTHING_HERE
        if not isinstance(seen.body, dict):
            return _NO_OBJECT
        if path == _COUNT_TOKENS:
            return Reply(json={"input_tokens": prompt_tokens_of(seen.body)})
        return self._completion(seen.body, seen)

    def _enter(self, arrival: Arrival) -> Seen:
        try:
            body = json.loads(arrival.body)
        except (ValueError, RecursionError):
            body = None
        with self._lock:
            seen = Seen(
                number=len(self._received) + 1,
                method=arrival.method,
                path=_relative(arrival.path),
                headers=arrival.headers,
                body=body,
                raw=arrival.body,
                at=time.monotonic(),
                connection=arrival.connection,
            )
            self._received.append(seen)
        return seen

    def _page(self, path: str, query: Mapping[str, Sequence[str]], seen: Seen) -> Reply:
        if path == "/models" and self._models is not None:
            return Reply(json=models_page(self._models, for_messages="anthropic-version" in seen.headers))
        if path == "/key" and self._key is not None:
            return Reply(json={"data": dict(self._key)})
        if path == "/generation" and self._generations:
            wanted = (query.get("id") or [""])[0]
            with self._lock:
                bill = self._bills.get(wanted)
            return error(404, f"Generation {wanted} not found") if bill is None else Reply(json={"data": bill})
        return _NOTHING_HERE

    def _completion(self, request: Mapping[str, Any], seen: Seen) -> Reply:
        try:
            reply = self.responder(request, seen)
        except BaseException as problem:  # noqa: BLE001 - raised at the end of the block
            with self._lock:
                self._problem = self._problem or problem
            return error(500, f"the responder failed: {problem!r}")
        if reply.filled and isinstance(reply.json, Mapping):
            reply = replace(reply, json=self._filled(reply.json, request, seen))
        self._bill(reply, request)
        return reply

    def _filled(self, body: Mapping[str, Any], request: Mapping[str, Any], seen: Seen) -> dict[str, Any]:
        body = {"id": f"gen-{seen.number:06d}", "model": request.get("model"), **body}
        if isinstance(body.get("choices"), list):
            body["choices"] = [_with_ids(choice, seen.number) for choice in body["choices"]]
        if "usage" not in body and "error" not in body:
            body["usage"] = counted(request, body, self._prices(request))
        elif isinstance(usage := body.get("usage"), Mapping) and usage.get("cost") == COUNTED:
            cost = price_of(usage["prompt_tokens"], usage["completion_tokens"], self._prices(request))
            body["usage"] = {**usage, "cost": cost}
        return {name: value for name, value in body.items() if value != ABSENT}

    def _prices(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name = request.get("model")
        return self._pricing.get(name, {}) if isinstance(name, str) else {}

    def _bill(self, reply: Reply, request: Mapping[str, Any]) -> None:
        body = reply.json if isinstance(reply.json, Mapping) else {}
        cost = cost_of(body.get("usage"), self._prices(request))
        with self._lock:
            self._costs.append(cost)
            if isinstance(body.get("id"), str):
                usage = body.get("usage") or {}
                self._bills[body["id"]] = {
                    "id": body["id"],
                    "model": body.get("model"),
                    "provider_name": body.get("provider"),
                    "total_cost": cost,
                    "usage": cost,
                    "native_tokens_prompt": usage.get("prompt_tokens"),
                    "native_tokens_completion": usage.get("completion_tokens"),
                    "cancelled": False,
                }


def _relative(path: str) -> str:
    prefix = next((prefix for prefix in (PREFIX, _OTHER_PREFIX) if path.startswith(f"{prefix}/")), "")
    return path.removeprefix(prefix)


def _keys(headers: Mapping[str, str]) -> list[str]:
    """The keys in the headers that clients of the three protocols use."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return [key for key in (token if scheme == "Bearer" else "", headers.get("x-api-key", "")) if key]


def _with_ids(choice: Mapping[str, Any], number: int) -> dict[str, Any]:
    message = dict(choice.get("message") or {})
    if message.get("tool_calls"):
        message["tool_calls"] = [
            {**tool_call, "id": f"call_{number}_{index}"} if tool_call.get("id") is None else tool_call
            for index, tool_call in enumerate(message["tool_calls"])
        ]
    return {**choice, "message": message}
