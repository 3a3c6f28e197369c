"""A chat request as the mechanic reads it: whatever JSON it is, something comes of it, and nothing is remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
class Talk:
    """A conversation so far."""

    words: str
    """Everything that was said to the model, apart from the results of tools."""
    exchanges: tuple[Exchange, ...]
    tools: Mapping[str, Mapping[str, Any]]
    """Tools on offer: name -> JSON schema of the arguments."""
    cap: int
    """Tokens that the answer may have."""

    @classmethod
    def of(cls, request: object) -> Talk:
        """Read a request; what makes no sense is left out."""
        given = request if isinstance(request, Mapping) else {}
        messages = [one for one in _list(given.get("messages")) if isinstance(one, Mapping)]
        caps = [given.get(name) for name in ("max_completion_tokens", "max_tokens")]
        return cls(
            words="\n\n".join(_content(one) for one in messages if one.get("role") in ("system", "user")),
            exchanges=tuple(_exchanges(messages)),
            tools=dict(_tools(given.get("tools"))),
            cap=next((cap for cap in caps if type(cap) is int and cap > 0), _DEFAULT_CAP),
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


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _tools(offered: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in _list(offered):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            schema = function.get("parameters")
            yield function["name"], schema if isinstance(schema, Mapping) else {}


def _exchanges(messages: Sequence[Mapping[str, Any]]) -> Iterator[Exchange]:
    """Calls with their results, which come in the order of the calls or are found by their ids."""
    for place, message in enumerate(messages):
        calls = (
            [_call(asked) for asked in _list(message.get("tool_calls"))] if message.get("role") == "assistant" else []
        )
        if not calls:
            continue
        results: list[Mapping[str, Any]] = []
        words: list[str] = []
        for later in messages[place + 1 :]:
            if later.get("role") == "assistant":
                break
            if later.get("role") == "tool":
                results.append(later)
            else:
                words.append(_content(later))
        by_id = {one.get("tool_call_id"): one for one in results if isinstance(one.get("tool_call_id"), str)}
        for number, (call_id, name, arguments) in enumerate(calls):
            result = by_id.get(call_id) or (results[number] if number < len(results) else {})
            last = number == len(calls) - 1
            yield Exchange(name, arguments, _content(result), "\n\n".join(words) if last else "")


def _call(asked: object) -> tuple[str, str, Mapping[str, Any]]:
    asked = asked if isinstance(asked, Mapping) else {}
    function = asked.get("function")
    function = function if isinstance(function, Mapping) else {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):
        arguments = {}
    name, call_id = function.get("name"), asked.get("id")
    return (
        call_id if isinstance(call_id, str) else "",
        name if isinstance(name, str) else "",
        arguments if isinstance(arguments, Mapping) else {},
    )
