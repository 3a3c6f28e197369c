"""A forwarded request without an agent: records everything that the provider passes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal

from agentbench_core import Completion, Message, Usage

_PATHS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}


def read_chat(status: int, body: bytes) -> Completion:
    """A response of Chat Completions, complete or as a stream. Raises ValueError if it is incomplete or an error."""
    if status >= 400:
        finish: Any = "context_overflow" if status == 413 else "rejected"
        return Completion(message=Message(role="assistant"), finish=finish, usage=Usage(cost_usd=0.0))
    if not body.lstrip().startswith(b"{"):
        lines = [line.removeprefix(b"data:").strip() for line in body.splitlines() if line.startswith(b"data:")]
        if not lines or lines[-1] != b"[DONE]":
            raise ValueError("the stream is incomplete")
        parts = [json.loads(line) for line in lines[:-1]]
    else:
        parts = [json.loads(body)]
    if any(not isinstance(part, dict) or part.get("error") for part in parts):
        raise ValueError("the response reports an error")
    choices = [choice for part in parts for choice in part.get("choices") or ()]
    words = [(choice.get("message") or choice.get("delta") or {}).get("content") or "" for choice in choices]
    usage = next((part["usage"] for part in reversed(parts) if part.get("usage")), None)
    return Completion(
        message=Message(role="assistant", content="".join(words)),
        usage=usage
        and Usage(
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            cost_usd=usage.get("cost"),
        ),
    )


class NativeDouble:
    """Implements ``NativeExchange``: records all arriving data. ``read`` parses the response for :meth:`completed`.

    ``listen`` is called after each piece, in the provider's thread.
    """

    def __init__(
        self,
        body: bytes = b"{}",
        *,
        protocol: Literal["chat", "responses", "messages"] = "chat",
        path: str = "",
        headers: Mapping[str, str] | None = None,
        read: Callable[[int, bytes], Completion] = read_chat,
        listen: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.protocol = protocol  #: see the contract
        self.path = path or _PATHS[protocol]  #: see the contract
        self.body = body  #: see the contract
        self.headers: Mapping[str, str] = dict(headers or {})  #: see the contract
        self.has_media = False  #: see the contract
        self.starts: list[tuple[int, Mapping[str, str]]] = []  #: status and headers of each call of `started`
        self.pieces: list[bytes] = []  #: the pieces of the body, as they arrived
        self.threads: set[int] = set()  #: the threads that passed something on
        self.ended = 0  #: number of calls of `completed`
        self._read = read
        self._listen = listen

    @property
    def status(self) -> int | None:
        """The status of the response, if it has started."""
        return self.starts[-1][0] if self.starts else None

    @property
    def received_body(self) -> bytes:
        """The body so far."""
        return b"".join(self.pieces)

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """See the contract."""
        self.threads.add(threading.get_ident())
        self.starts.append((status, dict(headers)))

    def received(self, data: bytes) -> None:
        """See the contract."""
        self.threads.add(threading.get_ident())
        self.pieces.append(data)
        self._listen(data)

    def completed(self) -> Completion:
        """See the contract."""
        self.ended += 1
        if self.status is None:
            raise ValueError("no response has started")
        return self._read(self.status, self.received_body)
