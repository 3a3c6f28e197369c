"""A request as the mechanic reads it, and its reply. Nothing is remembered: all that it knows is said there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentbench_core import Message, Request, ToolCall

_DEFAULT_CAP = 4096  # tokens


@dataclass(frozen=True)
class Exchange:
    """A tool call that was made, and what came of it."""

    tool: str
    arguments: Mapping[str, Any]
    result: str
    words_after: str
    """What was said to the model between this call and the next."""

    def argument(self, name: str) -> str:
        """An argument that is text; empty if it is not."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked for."""
        return not self.result.startswith("error:")


@dataclass(frozen=True)
class Transcript:
    """A conversation so far."""

    words: str
    """Everything that was said to the model, apart from the results of tools."""
    exchanges: tuple[Exchange, ...]
    tools: Mapping[str, Mapping[str, Any]]
    """Tools on offer: name -> JSON schema of the arguments."""
    cap: int
    """Tokens that the answer may have."""

    @classmethod
    def of(cls, request: Request) -> Transcript:
        """Read a request."""
        return cls(
            words="\n\n".join(one.content for one in request.messages if one.role in ("system", "user")),
            exchanges=tuple(_exchanges(request.messages)),
            tools={tool.name: tool.parameters for tool in request.tools},
            cap=request.max_tokens or _DEFAULT_CAP,
        )

    def properties(self, tool: str) -> Mapping[str, Any]:
        """The arguments that a tool takes, each with its schema."""
        found = self.tools.get(tool, {}).get("properties")
        return found if isinstance(found, Mapping) else {}

    def made(self, tool: str) -> list[Exchange]:
        """The calls of one tool, in order."""
        return [exchange for exchange in self.exchanges if exchange.tool == tool]

    def read(self) -> dict[str, str]:
        """Files that were read in full: path -> text, as it was when it was read last."""
        found: dict[str, str] = {}
        for exchange in self.made("read_file"):
            text = re.match(r"text:[\n ](.*)\ntotal_lines: \d+\nomitted_chars: 0\b", exchange.result, re.DOTALL)
            if text and not {"start_line", "end_line"} & exchange.arguments.keys():
                found[exchange.argument("path")] = text[1] + "\n"
        return found

    def listed(self) -> list[str]:
        """Paths that the repository was said to have."""
        lines = (line for exchange in self.made("list_files") if exchange.ok for line in exchange.result.splitlines())
        return list(dict.fromkeys(line.strip() for line in lines if line.startswith("  ")))


@dataclass(frozen=True)
class Reply:
    """Words, and tool calls if there are any."""

    text: str
    calls: tuple[ToolCall, ...] = ()

    @classmethod
    def call(cls, text: str, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Words and one call."""
        return cls(text, (ToolCall(tool=tool, arguments=arguments),))


def _exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Calls with their results, which are found by their ids or come in the order of the calls."""
    for place, message in enumerate(messages):
        if message.role != "assistant" or not message.tool_calls:
            continue
        later = list(itertools.takewhile(lambda one: one.role != "assistant", messages[place + 1 :]))
        results = [one for one in later if one.role == "tool"]
        by_id = {one.tool_call_id: one for one in results if one.tool_call_id}
        words = "\n\n".join(one.content for one in later if one.role != "tool")
        for number, call in enumerate(message.tool_calls):
            result = by_id.get(call.id) or (results[number] if number < len(results) else None)
            last = number == len(message.tool_calls) - 1
            yield Exchange(call.tool, call.arguments, result.content if result else "", words if last else "")
