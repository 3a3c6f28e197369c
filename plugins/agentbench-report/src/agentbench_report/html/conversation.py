"""What an attempt's agents and their model said to each other, per agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ConversationEntry, Message
from agentbench_report.html.texts import Text, Texts

MOST_MESSAGES = 1000
"""Of one attempt; what is beyond is counted."""
FILE = "agent/conversation.jsonl"


@attrs.frozen(kw_only=True)
class Asked:
    """A tool call that a model asked for."""

    tool: str
    arguments: Mapping[str, Text]
    problem: str


@attrs.frozen(kw_only=True)
class Said:
    """One message."""

    role: str
    call: int
    content: Text
    reasoning: Text | None
    asked: Sequence[Asked]
    notes: Sequence[str]
    """What is worth knowing of an answer: how it ended, what it used, who gave it."""


@attrs.define(kw_only=True)
class Talk:
    """All that one agent and its model said."""

    agent: str
    tools: Sequence[str] = ()
    """Names of the tools that the model was offered last."""
    messages: list[Said] = attrs.field(factory=list)
    left_out: int = 0


def conversations(records: Iterable[ConversationEntry], texts: Texts) -> Sequence[Talk]:
    """A talk per agent, in the order in which they first spoke."""
    talks: dict[str, Talk] = {}
    answers: dict[str, Message] = {}
    shown = 0
    for record in records:
        talk = talks.setdefault(record.agent, Talk(agent=record.agent))
        if record.tools is not None:
            talk.tools = [tool.name for tool in record.tools]
        messages = record.messages
        last = answers.get(record.agent)
        if messages and last is not None and _the_same(messages[0], last):
            messages = messages[1:]  # the answer before, sent back with other ids
        answer = record.completion.message
        answers[record.agent] = answer
        notes = list(_notes(record))
        for message, said in [*((message, []) for message in messages), (answer, notes)]:
            if shown >= MOST_MESSAGES:
                talk.left_out += 1
                continue
            shown += 1
            talk.messages.append(_said(message, record.call, said, texts))
    return list(talks.values())


def _the_same(message: Message, answer: Message) -> bool:
    mine, others = ([(call.tool, call.arguments) for call in one.tool_calls] for one in (message, answer))
    return message.role == answer.role and message.content == answer.content and mine == others


def _said(message: Message, call: int, notes: Sequence[str], texts: Texts) -> Said:
    reasoning = "\n".join(_reasoning(message.opaque))
    note = message.opaque.get("note")
    return Said(
        role=message.role,
        call=call,
        content=texts.said(message.content, FILE),
        reasoning=texts.said(reasoning, FILE) if reasoning else None,
        asked=[
            Asked(
                tool=asked.tool,
                arguments={name: texts.value(value, FILE) for name, value in asked.arguments.items()},
                problem=asked.problem,
            )
            for asked in message.tool_calls
        ],
        notes=[*notes, *([note] if isinstance(note, str) else [])],
    )


def _notes(record: ConversationEntry) -> Iterator[str]:
    answer = record.completion
    yield f"ended: {answer.finish}"
    if answer.usage is not None:
        yield f"{answer.usage.prompt_tokens:,} tokens in, {answer.usage.completion_tokens:,} out"
        if answer.usage.cost_usd is not None:
            yield f"${answer.usage.cost_usd:.4f}"
    yield from filter(None, [answer.model or record.model, answer.served_by and f"served by {answer.served_by}"])
    if answer.repaired:
        yield f"{answer.repaired} tool calls repaired"


def _reasoning(opaque: Mapping[str, Any]) -> Iterator[str]:
    """The words in what a provider wants echoed, wherever it puts them; what is encrypted has none."""
    if isinstance(opaque.get("reasoning_content"), str):
        yield opaque["reasoning_content"]
    details = opaque.get("reasoning_details")
    for detail in details if isinstance(details, (list, tuple)) else ():
        if isinstance(detail, Mapping):
            yield from (detail[name] for name in ("text", "summary") if isinstance(detail.get(name), str))
