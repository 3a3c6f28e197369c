"""A completion independent of the protocol, and server-sent events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CREATED = 1_700_000_000
"""The time at which every response was created."""


@dataclass(frozen=True, kw_only=True)
class NativeCall:
    """A tool call: ``arguments`` are JSON text as generated."""

    id: str
    name: str
    arguments: str

    def value(self) -> dict[str, Any]:
        """The arguments as an object; empty if they are not an object."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A completion, independent of the protocol."""

    id: str
    model: str
    text: str | None
    reasoning: str | None
    refusal: str | None
    calls: Sequence[NativeCall]
    finish: str | None
    """``finish_reason`` in Chat Completions."""
    usage: Mapping[str, Any] | None
    """As in Chat Completions."""
    delta: int
    """Characters per event."""

    @property
    def number(self) -> str:
        """The part of the id that distinguishes it from other responses."""
        return self.id.rpartition("-")[2]

    def tokens(self) -> tuple[int, int, int]:
        """Input tokens including cached ones, cached input tokens, and output tokens."""
        usage = self.usage or {}
        details = usage.get("prompt_tokens_details") or {}
        return usage.get("prompt_tokens") or 0, details.get("cached_tokens") or 0, usage.get("completion_tokens") or 0

    def cut(self, text: str) -> list[str]:
        """A text, split into the pieces for its events."""
        return [text[start : start + self.delta] for start in range(0, len(text), self.delta)]


def sse(data: Mapping[str, Any] | str, event: str = "") -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + b"data: " + text.encode("utf-8", "replace") + b"\n\n"
