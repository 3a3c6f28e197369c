"""What the mechanic says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentbench_core import ToolCall


@dataclass(frozen=True)
class Said:
    """Words, and tool calls if there are any."""

    text: str
    calls: tuple[ToolCall, ...] = ()

    @classmethod
    def call(cls, text: str, tool: str, arguments: Mapping[str, Any]) -> Said:
        """Words and one call."""
        return cls(text, (ToolCall(tool=tool, arguments=arguments),))
