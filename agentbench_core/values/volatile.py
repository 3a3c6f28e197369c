"""What differs between two equal runs of a program, taken out of its output."""

from __future__ import annotations

import re

STEADY_VERSION = "1"
"""Changes with the rules below: a replay says which rules it compared by."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # A time of day, with or without its date: 2025-12-15T18:05:12.123+01:00, 18:05:12
        (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?", "<moment>"),
        (r"(?<![\d:.])\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?(?![\d:])", "<time>"),
        # How long something took: 0.12s, 3 ms, 1.5 seconds, 2m 3s
        (r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b", "<duration>"),
        (r"(\"(?:\w*_)?(?:duration|elapsed|time|seconds)(?:_\w+)?\": ?)\d+(?:\.\d+)?", r"\1<duration>"),
        # Where an object lies, and which process it was
        (r"\b0x[0-9a-fA-F]{6,16}\b", "<address>"),
        (r"\b(pid|process|thread)([ =:]+)\d+", r"\1\2<id>"),
        # Names that tempfile, pytest and sandboxes make up
        (r"/(?:private/)?(?:tmp|var/tmp|var/folders/\w+/\w+/T|dev/shm)/[^\s'\"<>:,;)\]}]+", "<temporary>"),
        (r"(?:/[\w.@+-]+)+/agentbench-[\w.-]+(?:/[\w.@+-]+)*?(?=/(?:workspace|fork|tree)\b)", "<temporary>"),
        (r"\btmp[a-z0-9_]{8}\b", "<temporary>"),
        (r"\bpytest-\d+\b", "pytest-<n>"),
    )
)


def steady(text: str) -> str:
    """``text`` with times, durations, addresses, process ids and temporary paths replaced by words for them."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
