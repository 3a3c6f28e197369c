"""A server on loopback that speaks as OpenRouter does, for tests, demonstrations and benchmarks.

    from agentbench_openrouter.testing import LoopbackServer, answer, call, error, in_turn

    with LoopbackServer(in_turn(error(429, headers={"Retry-After": "1"}), answer("hello"))) as server:
        ...  # a client at server.base_url
    assert len(server.chat_requests) == 2

The requests are real HTTP over a real socket, and so is everything that goes wrong: see :class:`Reply`. Nothing here
leaves this machine, and nothing is needed but the standard library.
"""

from agentbench_openrouter.testing.catalogue import DEFAULT_MODEL, KEY, model
from agentbench_openrouter.testing.replies import ABSENT, COUNTED, Call, Reply, answer, call, error
from agentbench_openrouter.testing.responders import after, always, failing_from, in_turn
from agentbench_openrouter.testing.server import LoopbackServer, Responder, Seen
from agentbench_openrouter.testing.shapes import UNUSUAL

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
    "error",
    "failing_from",
    "in_turn",
    "model",
]
