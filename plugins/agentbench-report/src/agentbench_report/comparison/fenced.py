"""Format a diff as a fenced code block in Markdown."""

from __future__ import annotations

import re

from agentbench_core import escape_control

MAX_LINES = 100
MAX_WIDTH = 400
"""The maximum number of characters per line."""


def fenced(text: str) -> str:
    """The first ``MAX_LINES`` lines of a diff as a code block with a fence that the text cannot close."""
    lines = text.splitlines()
    omitted = len(lines) - MAX_LINES
    shown = [_truncate(line) for line in lines[:MAX_LINES]]
    shown += [f"[... {omitted} lines omitted ...]"] if omitted > 0 else []
    fence = "`" * max(3, 1 + max((len(run) for line in shown for run in re.findall("`+", line)), default=0))
    return "\n".join([f"{fence}diff", *shown, fence])


def _truncate(line: str) -> str:
    omitted = len(line) - MAX_WIDTH
    return escape_control(line[:MAX_WIDTH]) + (f" [... {omitted} characters omitted ...]" if omitted > 0 else "")
