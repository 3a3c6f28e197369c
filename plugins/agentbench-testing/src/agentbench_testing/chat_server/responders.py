"""Responders: functions that select the reply of a loopback server."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentbench_testing.chat_server.protocols import PATHS
from agentbench_testing.chat_server.replies import ABSENT, COUNTED, Reply, answer, call, error
from agentbench_testing.chat_server.server import Responder, Seen

if TYPE_CHECKING:
    from agentbench_core import Completion, Request


def always(reply: Reply) -> Responder:
    """The same reply every time."""
    return lambda _request, _seen: reply


def in_turn(*replies: Reply) -> Responder:
    """One reply after the other; the last one is repeated."""
    assert replies, "the list of replies is empty"
    last = replies[-1]
    coming = itertools.chain(replies, itertools.repeat(last))
    lock = threading.Lock()

    def respond(_request: Mapping[str, Any], _seen: Seen) -> Reply:
        with lock:
            return next(coming)

    return respond


def completing(complete: Callable[[Request], Completion], **faults: Any) -> Responder:
    """Replies with a function's completions, for requests in any protocol; ``faults`` are fields of :class:`.Reply`."""

    def respond(sent: Mapping[str, Any], seen: Seen) -> Reply:
        from agentbench_testing.chat_server.reading import request_in  # it imports agentbench_core

        try:
            request = request_in(PATHS[urlsplit(seen.path).path], sent)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            return error(400, f"malformed request: {problem!r}")
        return replace(completed(complete(request)), **faults)

    return respond


def completed(completion: Completion) -> Reply:
    """A completion as a reply. The request determines the model's name, and the server's prices determine the cost."""
    usage, message = completion.usage, completion.message
    counts: dict[str, Any] = {}
    if usage is not None:
        counts = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "cost": COUNTED,
        }
    if completion.finish == "context_overflow":
        return error(400, "the request exceeds the context window", code="context_length_exceeded")
    refused = completion.finish == "refusal"
    return answer(
        None if refused else message.content,
        refusal=message.content or "refused" if refused else None,
        tool_calls=[call(made.tool, made.arguments, id=made.id or None) for made in message.tool_calls],
        usage=counts or ABSENT,
        finish=_FINISH.get(completion.finish, ABSENT),
    )


_FINISH = {"length": "length", "refusal": "content_filter"}


def echoing(status: int = 200) -> Responder:
    """The client's credentials: in the text of an answer, or in the message and a header of an error."""

    def respond(_request: Mapping[str, Any], seen: Seen) -> Reply:
        sent = " ".join(seen.headers[name] for name in ("authorization", "x-api-key") if name in seen.headers)
        if status < 400:
            return answer(f"The credentials are: {sent}", headers={"X-Credentials": sent})
        return error(status, f"incorrect credentials: {sent}", headers={"X-Credentials": sent})

    return respond


def after(seconds: float, then: Reply | Responder) -> Responder:
    """A reply, or a responder's reply, after a delay in seconds."""

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        reply = then if isinstance(then, Reply) else then(request, seen)
        return replace(reply, delay=reply.delay + seconds)

    return respond


def failing_from(responder: Responder, first: int, reply: Reply, *, until: int | None = None) -> Responder:
    """A temporary fault: calls ``first`` to ``until`` get ``reply``.

    Both are inclusive, and calls are numbered from 1 in order of arrival. With ``until=None``, the fault does not end.
    """
    calls = itertools.count(1)
    lock = threading.Lock()

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        with lock:
            number = next(calls)
        is_failing = number >= first and (until is None or number <= until)
        return reply if is_failing else responder(request, seen)

    return respond
