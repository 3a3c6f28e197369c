"""The conversation of an agent with a model that calls tools, and its system prompt."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import (
    AgentTurnStarted,
    AttemptContext,
    Completion,
    Message,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
)

_BYTES_PER_TOKEN = 3.0
"""A conservative estimate, used until the first response reports the size of its prompt in tokens."""
_FULL = 0.95
"""Fraction of the window at which output is dropped; less than 1 because token counts are estimates."""
_LEFT = 0.7
"""Fraction of the window to keep when dropping output, so that not every turn drops something."""
_SMALLEST = 0.25
"""Minimum fraction of the window for input, however long responses may be."""
_SHORTEST = 400  # output with at most this many characters is never dropped
_BEGINNING = 100  # number of characters kept of dropped output that the model has not seen


@attrs.frozen
class Prompt:
    """A prompt. ``version``, for ``AgentResult.prompt_version``, is its name and the digest of its file or text."""

    name: str  #: part of the version
    text: str  #: the prompt as sent
    file: bytes = b""  #: content of the file that it was read from, if any

    @property
    def version(self) -> str:
        """``system_v1@sha256:...``, the digest printed by ``sha256sum system_v1.txt``; any edit changes it."""
        return f"{self.name}@sha256:{hashlib.sha256(self.file or self.text.encode()).hexdigest()}"

    @classmethod
    def read(cls, package: str, name: str) -> Prompt:
        """Read ``prompts/NAME.txt`` from a package."""
        file = (importlib.resources.files(package) / "prompts" / f"{name}.txt").read_bytes()
        return cls(name, file.decode().strip(), file)


class Conversation:
    """The messages of one agent with its model.

    Stays inside the model's context window by dropping the oldest output first: tool results, and truncatable
    messages. A call and its result stay together. Not thread-safe.
    """

    def __init__(
        self,
        context: AttemptContext,
        system: str,
        *,
        tools: Sequence[ToolSpec] | None = None,
        window: int | None = None,
    ) -> None:
        """Start with a system prompt.

        Args:
            context: the attempt; its ``llm`` must be set.
            system: the first message.
            tools: tools that the model may call; by default the context's tools.
            window: context window in tokens, used if the provider does not report it.
        """
        assert context.llm is not None, (
            "an agent that uses a conversation must be registered with the `needs_llm` capability"
        )
        self._context = context
        self._llm = context.llm
        self._tools = tuple(context.tools.specs if tools is None else tools)
        self._window = context.llm.facts.context_tokens or window
        self._messages = [Message(role="system", content=system)]
        self._truncatable: set[int] = set()
        self._bytes = self._messages[0].size + sum(tool.size for tool in self._tools)
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._last_turn = 1
        self.turns = 0  #: number of turns so far

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far, as sent to the model."""
        return tuple(self._messages)

    def add_user(self, text: str, *, truncatable: bool = False) -> None:
        """Add a user message. ``truncatable``: it contains output, which may later be cut to its first line."""
        if truncatable:
            self._truncatable.add(len(self._messages))
        self._add(Message(role="user", content=text))

    def complete(self) -> Completion:
        """Request the model's next response, and add it to the conversation. Starts a turn.

        If the server reports that the request is too long, older output is dropped and the request repeated, until
        nothing is left to drop.
        """
        self.turns += 1
        self._context.log.emit(AgentTurnStarted(turn=self.turns))
        self._fit()
        while True:
            sent_bytes = self._bytes
            answer = self._llm.complete(Request(messages=self.messages, tools=self._tools))
            if answer.finish != "context_overflow" or not self._shrink(sent_bytes / 2):
                break
        if answer.usage and answer.usage.prompt_tokens:
            self._bytes_per_token = min(max(sent_bytes / answer.usage.prompt_tokens, 1.0), 8.0)
        self._last_turn = len(self._messages)
        if answer.message.content or answer.message.tool_calls:  # some servers reject a message without either
            self._add(answer.message)
        return answer

    def call_tools(self, answer: Completion) -> Sequence[ToolResult]:
        """Make every tool call of a response, in order, and add the results and the remaining budget."""
        results = []
        for number, call in enumerate(answer.message.tool_calls, start=1):
            results.append(self._context.tools.call(call))
            self.add_tool_result(call, results[-1], last=number == len(answer.message.tool_calls))
        return results

    def add_tool_result(self, call: ToolCall, result: ToolResult, *, last: bool = False) -> None:
        """Add the result of a call made or answered by the agent. ``last``: also add the remaining budget."""
        remaining = self._context.budget.left if last else ""
        text = shown(result) + (f"\n[left: {remaining}]" if remaining else "")
        self._add(Message(role="tool", content=text, tool_call_id=call.id))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._bytes += message.size

    def _fit(self) -> None:
        if self._window is None:
            return
        capacity = max(self._window - (self._llm.facts.answer_tokens or 0), self._window * _SMALLEST)
        if self._bytes / self._bytes_per_token > capacity * _FULL:
            self._shrink(capacity * _LEFT * self._bytes_per_token)

    def _shrink(self, target: float) -> bool:
        """Drop the oldest output until ``target`` bytes are left, and return whether anything was dropped."""
        before = self._bytes
        for index, message in enumerate(self._messages):
            if self._bytes <= target:
                break
            text = index in self._truncatable
            if not (text or message.role == "tool") or len(message.content) <= _SHORTEST:
                continue
            retained = 0 if index < self._last_turn else _BEGINNING  # keep the beginning of unread output
            if text:
                retained = max(retained, min(len(message.content.partition("\n")[0]), 2 * _BEGINNING))
            dropped = len(message.content) - retained
            note = f"[{dropped} characters of output dropped: the conversation grew too long]"
            note = f"{message.content[:retained]}\n{note}"
            self._messages[index] = attrs.evolve(message, content=note.strip())
            self._bytes += self._messages[index].size - message.size
        return self._bytes < before


def shown(result: ToolResult) -> str:
    """A tool result as shown to a model: multi-line text unchanged, other values on one line each."""
    error = [] if result.ok else [f"error: {result.error_type}: {result.error_message}"]
    return "\n".join([*error, *(_field(name, value) for name, value in result.fields.items())]) or "done"


def _field(name: str, value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"{name}:\n{value.rstrip()}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join([f"{name}:" if value else f"{name}: none", *(f"  {_plain(item)}" for item in value)])
    return f"{name}: {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value)
