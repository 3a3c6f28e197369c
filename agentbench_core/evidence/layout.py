"""Names and paths in a run directory. ``docs/run-directory.md`` documents the exact layout."""

from __future__ import annotations

import datetime
import re

from agentbench_core.values.shard import Shard
from agentbench_core.values.text import quantity

MANIFEST = "run.json"
ATTEMPTS = "attempts.jsonl"
EVENTS = "events.jsonl"
SUMMARY = "report_summary.md"
LOCK = ".lock"
TAGS = "tags.json"

REPO = "repo"
"""Directory of the files that differ from the prepared tree, relative to the attempt's directory."""
WORKSPACE = "workspace.json"
"""The rest of that difference: removed files, links, modes, and files that are missing in the directory."""

CONVERSATION = "agent/conversation.jsonl"
TOOL_CALLS = "agent/tool_calls.jsonl"
"""Paths relative to the attempt's directory, like those of logs and diffs below."""

LOG_LINES = 1000
"""Number of lines kept at the beginning and at the end of a log."""


def run_directory_name(
    started: datetime.datetime, suite: str, variant: str, model: str, shard: Shard | None = None
) -> str:
    """``2025-12-15T18-00-00-0500__custom-dev__baseline__anthropic_claude-3-5``; without a model, no last part.

    A shard has its number in the name, since the runs of all shards are collected in one directory.
    """
    stamp = started.strftime("%Y-%m-%dT%H-%M-%S%z")
    numbers = [f"shard-{shard.index}-of-{shard.count}"] if shard else []
    parts = [stamp, suite, variant, *([model] if model else []), *numbers]
    return "__".join(re.sub(r"[^A-Za-z0-9.+-]+", "_", part)[:60] for part in parts)


def task_directory(task_id: str, repeat: int) -> str:
    """Directory of an attempt, relative to the run directory; the name of a later repeat contains its number."""
    return f"tasks/{task_id}" if repeat == 1 else f"tasks/{task_id}@{repeat}"


def superseded_directory(attempt_id: str) -> str:
    """Archive directory of a retried attempt, relative to the run directory."""
    return f"superseded/{attempt_id}"


def log_path(phase: str, stream: str) -> str:
    """Log of a phase (``setup``, ``failing``, ``passing``), relative to the attempt's directory."""
    return f"logs/{phase}_{stream}.txt"


def native_response(call: int) -> str:
    """A forwarded response as it was sent, relative to the attempt's directory: status and headers, then the body."""
    return f"agent/responses/{call:04d}.txt"


def step_diff(step: int) -> str:
    """Diff of one step, relative to the attempt's directory."""
    return f"diffs/step_{step:04d}.patch"


def shorten(text: str, lines: int = LOG_LINES) -> str:
    """The first and last ``lines`` lines of a log, with a line between them that states how many were omitted."""
    every = text.splitlines(keepends=True)
    if len(every) <= 2 * lines:
        return text
    omitted = len(every) - 2 * lines
    cut = f"[... {quantity(omitted, 'line')} left out ...]\n"
    return "".join([*every[:lines], cut, *every[-lines:]])
