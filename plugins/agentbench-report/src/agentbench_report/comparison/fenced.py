"""Text of a file as a block of code in Markdown."""

from __future__ import annotations

import re

from agentbench_core import escape_control

LINES = 100
WIDTH = 400
"""How many lines are shown, and how many characters of each."""


def fenced(text: str) -> str:
    """Lines of a file as a block of code that nothing in them can end; at most ``LINES``, none of them endless."""
    lines = text.splitlines()
    cut = len(lines) - LINES
    shown = [_short(line) for line in lines[:LINES]] + ([f"[... {cut} lines left out ...]"] if cut > 0 else [])
    fence = "`" * max(3, 1 + max((len(run) for line in shown for run in re.findall("`+", line)), default=0))
    return "\n".join([f"{fence}diff", *shown, fence])


def _short(line: str) -> str:
    more = len(line) - WIDTH
    return escape_control(line[:WIDTH]) + (f" [... {more} characters left out ...]" if more > 0 else "")
