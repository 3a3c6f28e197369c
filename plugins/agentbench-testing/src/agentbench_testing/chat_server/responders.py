"""Responders: functions that select the reply of a loopback server."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentbench_testing.chat_server.replies import Reply
from agentbench_testing.chat_server.server import Responder, Seen


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
