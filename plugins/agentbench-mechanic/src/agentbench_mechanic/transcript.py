"""The transcript of a conversation, parsed from a request, and the mechanic's reply. Stateless."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentbench_core import Message, Request, ToolCall

_DEFAULT_MAX_TOKENS = 4096  # tokens


@dataclass(frozen=True)
class Exchange:
    """A tool call and its result."""

    tool: str
    arguments: Mapping[str, Any]
    result: str
    text_after: str
    """User messages after this call and before the next message of the model."""

    def argument(self, name: str) -> str:
        """An argument; empty if it is missing or not a string."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return not self.result.startswith("error:")


@dataclass(frozen=True)
class Transcript:
    """The conversation so far."""

    text: str
    """All system and user messages, without tool results."""
    exchanges: tuple[Exchange, ...]
    tools: Mapping[str, Mapping[str, Any]]
    """Offered tools: name -> JSON schema of the arguments."""
    max_tokens: int
    """Maximum tokens of the response."""
    search_seconds: float = 40.0
    """Maximum seconds of one search, which must fit into the time limits of tools and attempts."""

    @classmethod
    def of(cls, request: Request) -> Transcript:
        """Parse a request."""
        return cls(
            text="\n\n".join(one.content for one in request.messages if one.role in ("system", "user")),
            exchanges=tuple(_exchanges(request.messages)),
            tools={tool.name: tool.parameters for tool in request.tools},
            max_tokens=request.max_tokens or _DEFAULT_MAX_TOKENS,
        )

    def properties(self, tool: str) -> Mapping[str, Any]:
        """The arguments of a tool, each with its schema."""
        properties = self.tools.get(tool, {}).get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def calls_of(self, tool: str) -> list[Exchange]:
        """The calls to one tool, in order."""
        return [exchange for exchange in self.exchanges if exchange.tool == tool]

    def read(self) -> dict[str, str]:
        """Files that were read in full: path -> the text of the latest read."""
        result: dict[str, str] = {}
        for exchange in self.calls_of("read_file"):
            text = re.match(r"text:[\n ](.*)\ntotal_lines: \d+\nomitted_chars: 0\b", exchange.result, re.DOTALL)
            if text and not {"start_line", "end_line"} & exchange.arguments.keys():
                result[exchange.argument("path")] = text[1] + "\n"
        return result

    def listed_paths(self) -> list[str]:
        """The paths that ``list_files`` has returned."""
        lines = (
            line for exchange in self.calls_of("list_files") if exchange.ok for line in exchange.result.splitlines()
        )
        return list(dict.fromkeys(line.strip() for line in lines if line.startswith("  ")))


@dataclass(frozen=True)
class Reply:
    """Text, and tool calls if any."""

    text: str
    calls: tuple[ToolCall, ...] = ()

    @classmethod
    def call(cls, text: str, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Text and one call."""
        return cls(text, (ToolCall(tool=tool, arguments=arguments),))


def _exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Calls with their results, matched by id or by order."""
    for index, message in enumerate(messages):
        if message.role != "assistant" or not message.tool_calls:
            continue
        later = list(itertools.takewhile(lambda one: one.role != "assistant", messages[index + 1 :]))
        results = [one for one in later if one.role == "tool"]
        by_id = {one.tool_call_id: one for one in results if one.tool_call_id}
        text = "\n\n".join(one.content for one in later if one.role != "tool")
        for number, call in enumerate(message.tool_calls):
            result = by_id.get(call.id) or (results[number] if number < len(results) else None)
            last = number == len(message.tool_calls) - 1
            yield Exchange(call.tool, call.arguments, result.content if result else "", text if last else "")
