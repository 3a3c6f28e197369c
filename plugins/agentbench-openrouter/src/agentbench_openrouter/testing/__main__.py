"""``python -m agentbench_openrouter.testing``: the mechanic behind a server on loopback, to try AgentBench with.

It needs no key and no network, and ends on Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import threading

from agentbench_openrouter.testing.catalogue import DEFAULT_MODEL
from agentbench_openrouter.testing.mechanic import mechanic
from agentbench_openrouter.testing.responders import after
from agentbench_openrouter.testing.server import LoopbackServer


def main(arguments: list[str]) -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m agentbench_openrouter.testing",
        description="A server on loopback that speaks as OpenRouter does; behind it, a rule-driven 'model'.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="what the model is called")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="before each answer")
    chosen = parser.parse_args(arguments)
    with LoopbackServer(after(chosen.delay, mechanic), models=[chosen.model], port=chosen.port) as server:
        try:
            print(f"{server.base_url} serves {chosen.model}. Try it, in another terminal:\n")
            print("  agentbench run --suite custom-dev --agent baseline --allow-unisolated \\")
            print(f"    --llm openrouter --model {chosen.model} --set llm.base_url={server.base_url}\n")
            print("Ctrl-C ends this.", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"\n{len(server.chat_requests)} answers, {server.billed_usd:.4f} pretended US dollars")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
