"""The conversations of an attempt between its agents and their model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ConversationEntry, Message
from agentbench_report.html.texts import Text, Texts

MAX_MESSAGES = 1000
"""The maximum number of messages shown per attempt. Further messages are only counted."""
FILE = "agent/conversation.jsonl"


@attrs.frozen(kw_only=True)
class ShownToolCall:
    """A tool call requested by a model."""

    tool: str
    arguments: Mapping[str, Text]
    problem: str


@attrs.frozen(kw_only=True)
class ShownMessage:
    """One message."""

    role: str
    call: int
    content: Text
    reasoning: Text | None
    tool_calls: Sequence[ShownToolCall]
    notes: Sequence[str]
    """Facts about a response: its finish reason, usage, model and provider."""


@attrs.define(kw_only=True)
class AgentConversation:
    """The messages between one agent and its model."""

    agent: str
    tools: Sequence[str] = ()
    """Names of the tools most recently offered to the model."""
    messages: list[ShownMessage] = attrs.field(factory=list)
    left_out: int = 0


def conversations(records: Iterable[ConversationEntry], texts: Texts) -> Sequence[AgentConversation]:
    """One conversation per agent, in the order of their first calls."""
    talks: dict[str, AgentConversation] = {}
    answers: dict[str, Message] = {}
    shown = 0
    for record in records:
        talk = talks.setdefault(record.agent, AgentConversation(agent=record.agent))
        if record.tools is not None:
            talk.tools = [tool.name for tool in record.tools]
        messages = record.messages
        last = answers.get(record.agent)
        if messages and last is not None and _same_message(messages[0], last):
            messages = messages[1:]  # the previous response, sent back with different ids
        answer = record.completion.message
        answers[record.agent] = answer
        notes = list(_notes(record))
        for message, message_notes in [*((message, []) for message in messages), (answer, notes)]:
            if shown >= MAX_MESSAGES:
                talk.left_out += 1
                continue
            shown += 1
            talk.messages.append(_shown_message(message, record.call, message_notes, texts))
    return list(talks.values())


def _same_message(message: Message, answer: Message) -> bool:
    calls, answer_calls = ([(call.tool, call.arguments) for call in source.tool_calls] for source in (message, answer))
    return message.role == answer.role and message.content == answer.content and calls == answer_calls


def _shown_message(message: Message, call: int, notes: Sequence[str], texts: Texts) -> ShownMessage:
    reasoning = "\n".join(_reasoning(message.opaque))
    note = message.opaque.get("note")
    return ShownMessage(
        role=message.role,
        call=call,
        content=texts.excerpt(message.content, FILE),
        reasoning=texts.excerpt(reasoning, FILE) if reasoning else None,
        tool_calls=[
            ShownToolCall(
                tool=tool_call.tool,
                arguments={name: texts.value(value, FILE) for name, value in tool_call.arguments.items()},
                problem=tool_call.problem,
            )
            for tool_call in message.tool_calls
        ],
        notes=[*notes, *([note] if isinstance(note, str) else [])],
    )


def _notes(record: ConversationEntry) -> Iterator[str]:
    answer = record.completion
    yield f"finish reason: {answer.finish}"
    if answer.usage is not None:
        yield f"{answer.usage.prompt_tokens:,} tokens in, {answer.usage.completion_tokens:,} out"
        if answer.usage.cost_usd is not None:
            yield f"${answer.usage.cost_usd:.4f}"
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
