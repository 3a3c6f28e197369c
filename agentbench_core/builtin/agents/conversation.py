"""A conversation of an agent with a model that calls tools, and the prompt that it begins with."""

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
"""A guess on the careful side, until the first answer tells."""
_FULL = 0.95
"""Share of the window at which something must go: counts of tokens are estimates."""
_LEFT = 0.7
"""Share of the window that is left full then, so that not every turn has to drop something."""
_SMALLEST = 0.25
"""Share of the window that is for what is read, however much a model may write."""
_SHORTEST = 400  # characters of output that are not worth dropping
_BEGINNING = 100  # characters of dropped output that say what it was


@attrs.frozen
class Prompt:
    """A prompt. ``version``, for ``AgentResult.prompt_version``, is its name and the digest of its file or text.

    ``file`` holds the bytes that it was read from, if any.
    """

    name: str
    text: str
    file: bytes = b""

    @property
    def version(self) -> str:
        """``system_v1@sha256:...``: what ``sha256sum system_v1.txt`` prints; another word is another version."""
        return f"{self.name}@sha256:{hashlib.sha256(self.file or self.text.encode()).hexdigest()}"

    @classmethod
    def read(cls, package: str, name: str) -> Prompt:
        """The file ``prompts/NAME.txt`` of a package."""
        file = (importlib.resources.files(package) / "prompts" / f"{name}.txt").read_bytes()
        return cls(name, file.decode().strip(), file)


class Conversation:
    """The messages of one agent with its model.

    Kept inside the model's window by dropping the oldest output first: that of tools, and words that were said as
    droppable. A call and its result stay together, always. Not thread-safe.
    """

    def __init__(
        self,
        context: AttemptContext,
        system: str,
        *,
        tools: Sequence[ToolSpec] | None = None,
        window: int | None = None,
    ) -> None:
        """Begin with a system prompt.

        Args:
            context: the attempt; its ``llm`` must be there.
            system: the first message.
            tools: what the model may call; those of the context when not given.
            window: tokens that the model can read and write, where nobody else says.
        """
        assert context.llm is not None, (
            "an agent that uses a conversation must be registered with the capability needs_llm"
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
        self.turns = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """What has been said so far, as the model will read it."""
        return tuple(self._messages)

    def add_user(self, text: str, *, truncatable: bool = False) -> None:
        """Add words for the model. ``truncatable``: they hold output, of which the first line is enough later on."""
        if truncatable:
            self._truncatable.add(len(self._messages))
        self._add(Message(role="user", content=text))

    def complete(self) -> Completion:
        """The model's next answer, taken into the conversation. Begins a turn.

        When the server finds the request too long all the same, older output goes and the model is asked again, until
        nothing is left to drop.
        """
        self.turns += 1
        self._context.log.emit(AgentTurnStarted(turn=self.turns))
        self._fit()
        while True:
            asked = self._bytes
            answer = self._llm.complete(Request(messages=self.messages, tools=self._tools))
            if answer.finish != "context_overflow" or not self._shrink(asked / 2):
                break
        if answer.usage and answer.usage.prompt_tokens:
            self._bytes_per_token = min(max(asked / answer.usage.prompt_tokens, 1.0), 8.0)
        self._last_turn = len(self._messages)
        if answer.message.content or answer.message.tool_calls:  # some servers refuse a message without either
            self._add(answer.message)
        return answer

    def call_tools(self, answer: Completion) -> Sequence[ToolResult]:
        """Make every call of an answer, in order, and take in the results. The model is told what is left."""
        results = []
        for number, call in enumerate(answer.message.tool_calls, start=1):
            results.append(self._context.tools.call(call))
            self.add_tool_result(call, results[-1], last=number == len(answer.message.tool_calls))
        return results

    def add_tool_result(self, call: ToolCall, result: ToolResult, *, last: bool = False) -> None:
        """Take in the result of a call that the agent has made or answered itself."""
        left = self._context.budget.left if last else ""
        text = shown(result) + (f"\n[left: {left}]" if left else "")
        self._add(Message(role="tool", content=text, tool_call_id=call.id))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._bytes += message.size

    def _fit(self) -> None:
        if self._window is None:
            return
        room = max(self._window - (self._llm.facts.answer_tokens or 0), self._window * _SMALLEST)
        if self._bytes / self._bytes_per_token > room * _FULL:
            self._shrink(room * _LEFT * self._bytes_per_token)

    def _shrink(self, target: float) -> bool:
        """Drop output, the oldest first, until ``target`` bytes are left; says whether anything went."""
        before = self._bytes
        for index, message in enumerate(self._messages):
            if self._bytes <= target:
                break
            said = index in self._truncatable
            if not (said or message.role == "tool") or len(message.content) <= _SHORTEST:
                continue
            kept = 0 if index < self._last_turn else _BEGINNING  # of what nobody has read yet, a beginning
            if said:
                kept = max(kept, min(len(message.content.partition("\n")[0]), 2 * _BEGINNING))
            dropped = len(message.content) - kept
            note = f"{message.content[:kept]}\n[{dropped} characters of output dropped: the conversation grew too long]"
            self._messages[index] = attrs.evolve(message, content=note.strip())
            self._bytes += self._messages[index].size - message.size
        return self._bytes < before


def shown(result: ToolResult) -> str:
    """A tool's result as a model reads it: text as it is, short values on one line each."""
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
