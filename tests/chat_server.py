"""The mechanic behind a loopback server: a model that repairs programs, over real HTTP.

Run ``python -m tests.chat_server`` to start one; it prints its base URL and serves until it is killed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_mechanic.provider import answer_to
from agentbench_testing.chat_server import LoopbackServer, Reply, Seen, answer, call


def mechanic(sent: Mapping[str, Any], _: Seen) -> Reply:
    """Answer a chat request as the mechanic does."""
    message = answer_to(_request(sent)).message
    calls = [call(made.tool, made.arguments, id=made.id) for made in message.tool_calls]
    return answer(message.content, tool_calls=calls)


def _request(sent: Mapping[str, Any]) -> Request:
    """Convert a chat request back to the ``Request`` that the llm ``openrouter`` received."""
    functions = [tool["function"] for tool in sent.get("tools", ())]
    return Request(
        messages=tuple(_message(each) for each in sent["messages"]),
        tools=tuple(ToolSpec(name=each["name"], description="", parameters=each["parameters"]) for each in functions),
        max_tokens=sent.get("max_completion_tokens") or sent.get("max_tokens"),
    )


def _message(sent: Mapping[str, Any]) -> Message:
    calls = [(made["id"], made["function"]) for made in sent.get("tool_calls", ())]
    return Message(
        role=sent["role"],
        content=sent["content"] or "",
        tool_calls=tuple(
            ToolCall(tool=function["name"], arguments=json.loads(function["arguments"]), id=call_id)
            for call_id, function in calls
        ),
        tool_call_id=sent.get("tool_call_id", ""),
    )


if __name__ == "__main__":
    with LoopbackServer(mechanic) as server:
        print(server.base_url, flush=True)
        threading.Event().wait()
