"""The mechanic behind a loopback server: a model that repairs programs, over real HTTP.

Run ``python -m tests.chat_server`` to start one; it prints its base URL and serves until it is killed.
"""

from __future__ import annotations

import threading

from agentbench_mechanic.provider import answer_to
from agentbench_testing.chat_server import LoopbackServer, completing

mechanic = completing(answer_to)
"""Answers a request in any protocol as the mechanic does."""

if __name__ == "__main__":
    with LoopbackServer(mechanic) as server:
        print(server.base_url, flush=True)
        threading.Event().wait()
