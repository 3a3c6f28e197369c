"""A loopback server with OpenRouter's API, for tests, demonstrations and benchmarks.

It supports Chat Completions, Responses and Messages, with and without streaming.

    from agentbench_testing.chat_server import LoopbackServer, answer, call, error, in_turn

    with LoopbackServer(in_turn(error(429, headers={"Retry-After": "1"}), answer("hello"))) as server:
        ...  # a client at server.base_url
    assert len(server.chat_requests) == 2

Requests, replies and faults are real HTTP over a real socket; see :class:`Reply`. Nothing leaves this machine, and only
the standard library is imported.
"""

from agentbench_testing.chat_server.catalogue import DEFAULT_MODEL, KEY, model
from agentbench_testing.chat_server.replies import ABSENT, COUNTED, Call, Reply, answer, call, error
from agentbench_testing.chat_server.responders import (
    after,
    always,
    completed,
    completing,
    echoing,
    failing_from,
    in_turn,
)
from agentbench_testing.chat_server.server import LoopbackServer, Responder, Seen
from agentbench_testing.chat_server.shapes import UNUSUAL

__all__ = [
    "ABSENT",
    "COUNTED",
    "DEFAULT_MODEL",
    "KEY",
    "UNUSUAL",
    "Call",
    "LoopbackServer",
    "Reply",
    "Responder",
    "Seen",
    "after",
    "always",
    "answer",
    "call",
    "completed",
    "completing",
    "echoing",
    "error",
    "failing_from",
    "in_turn",
    "model",
]
