"""What lies in ``agent/conversation.jsonl`` of an attempt, and the requests that can be read from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from agentbench_core.values.messages import Completion, Message, Request, ToolSpec


@attrs.frozen(kw_only=True)
class ConversationRecord:
    """One line: an answered call, with what is new since the line before of the same agent.

    ``since`` says how many messages of the request are those of that agent's line before, its answer included; 0 when
    it began anew. ``tools`` is ``None`` where they are those of that agent's line before.
    """

    call: int
    agent: str = ""
    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: tuple[ToolSpec, ...] | None = None
    since: int
    messages: tuple[Message, ...]
    completion: Completion


def requests(records: Iterable[ConversationRecord]) -> Iterator[tuple[str, Request, Completion]]:
    """Who asked, each answered request as a whole, and its answer, in the order of the lines."""
    told: dict[str, tuple[Message, ...]] = {}
    tools: dict[str, tuple[ToolSpec, ...]] = {}
    for record in records:
        messages = told.get(record.agent, ())[: record.since] + record.messages
        told[record.agent] = (*messages, record.completion.message)
        if record.tools is not None:
            tools[record.agent] = record.tools
        request = Request(
            messages=messages,
            tools=tools.get(record.agent, ()),
            model=record.model,
            max_tokens=record.max_tokens,
            temperature=record.temperature,
            top_p=record.top_p,
        )
        yield record.agent, request, record.completion
