"""The messages between an agent and its model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ConversationEntry, Message
from agentbench_report.html.texts import Text, Texts

FILE = "agent/conversation.jsonl"


@attrs.frozen(kw_only=True)
class ShownMessage:
    """One message, without its tool calls."""

    role: str
    content: Text
    reasoning: Text | None
    notes: Sequence[str]
    """Facts about a response: its finish reason, usage, model and provider."""


def shown(message: Message, texts: Texts, facts: Iterable[str] = ()) -> ShownMessage:
    """A message in the displayed form, with facts about it."""
    reasoning = "\n".join(_reasoning(message.opaque))
    note = message.opaque.get("note")
    return ShownMessage(
        role=message.role,
        content=texts.excerpt(message.content, FILE),
        reasoning=texts.excerpt(reasoning, FILE) if reasoning else None,
        notes=[*facts, *([note] if isinstance(note, str) else [])],
    )


def same_message(message: Message, answer: Message) -> bool:
    """Whether a message of a request is an earlier answer, whose ids may have been replaced."""
    calls, answer_calls = ([(call.tool, call.arguments) for call in source.tool_calls] for source in (message, answer))
    return message.role == answer.role and message.content == answer.content and calls == answer_calls


def notes(record: ConversationEntry) -> Iterator[str]:
    """Facts about a response."""
    answer = record.completion
    if answer.usage is not None:
        yield f"{answer.usage.prompt_tokens:,} tokens in, {answer.usage.completion_tokens:,} out"
        if answer.usage.cost_usd:
            yield f"${answer.usage.cost_usd:.4f}"
    if answer.finish not in ("tool_calls", "stop"):
        yield f"finish reason: {answer.finish}"
    yield from filter(None, [answer.model or record.model, answer.served_by and f"served by {answer.served_by}"])
    if answer.repaired:
        yield f"repaired tool calls: {answer.repaired}"


def _reasoning(opaque: Mapping[str, Any]) -> Iterator[str]:
    """The readable reasoning text in the provider-specific fields of a message."""
    if isinstance(opaque.get("reasoning_content"), str):
        yield opaque["reasoning_content"]
    details = opaque.get("reasoning_details")
    for detail in details if isinstance(details, (list, tuple)) else ():
        if isinstance(detail, Mapping):
            yield from (detail[name] for name in ("text", "summary") if isinstance(detail.get(name), str))
