"""The page of an attempt, which is stored compressed in the report and decompressed when it is opened."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from agentbench_core import InputError
from agentbench_report.html import calls, results
from agentbench_report.html.environment import templates
from agentbench_report.html.listing import ListedAttempt
from agentbench_report.html.texts import Text, Texts
from agentbench_report.html.timeline import Timeline
from agentbench_report.html.turns import turns

_LOGS = {
    "failing": "Before the change (must fail)",
    "passing": "After the change (must pass)",
    "setup": "Setup",
}
_LINE = 32
"""The number of characters per line of base64, which is less than the length of any API key. Otherwise, compressed data
could look like a key by chance, and redaction by the harness would damage the page."""

_Line = TypeVar("_Line")


def page(listed: ListedAttempt, timeline: Timeline) -> str:
    """Render the page of an attempt with a record."""
    row, view = listed.row, listed.view
    if row is None:
        raise ValueError("an attempt without a record has no page")
    texts = Texts(view, row.task_id, row.repeat)
    problems: list[str] = []
    # Read the patch first, because text that is read later is truncated more if the page is already long.
    final = texts.file("diffs/final.patch")
    explanation = texts.cut(timeline.explanation, "events.jsonl")
    tests = _tests(listed, texts, timeline.explanation, problems)
    logs = [(title, streams) for phase, title in _LOGS.items() if (streams := _logs(texts, phase))]
    lines = _until_damaged(view.tool_calls(row.task_id, row.repeat), problems)
    log = list(calls.logged(islice(lines, calls.MAX_CALLS), texts, timeline))
    more_calls = sum(1 for _ in lines)
    talk = turns(_until_damaged(view.conversation(row.task_id, row.repeat), problems), log, timeline, texts)
    template = templates().get_template("attempt.html.j2")
    return template.render(
        listed=listed,
        row=row,
        timeline=timeline,
        explanation=explanation,
        tests=tests,
        labels=[(label.name, texts.cut(label.evidence, "attempts.jsonl")) for label in row.labels],
        final=final,
        logs=logs,
        talk=talk,
        more_calls=more_calls,
        task=None if talk.asked else texts.file("task.yaml"),
        problems=problems,
        traceback=texts.file("agent/traceback.txt"),
        environment=texts.file("meta/environment.json"),
        phases=phases(listed),
        directory=texts.path("").rstrip("/"),
    )


def _tests(listed: ListedAttempt, texts: Texts, known: str, problems: list[str]) -> results.Tests | None:
    """The test results written by the scorer, if any. A damaged file is added to ``problems``."""
    data = listed.view.file(texts.task_id, texts.repeat, results.FILE, at_most=results.MAX_BYTES)
    if data is None:
        return None
    try:
        return results.shown(results.read(data), texts, known)
    except InputError as error:
        problems.append(f"{texts.path(results.FILE)} cannot be read: {error}")
        return None


def compressed(html: str) -> str:
    """A compressed page as lines of base64."""
    data = base64.b64encode(gzip.compress(html.encode(), compresslevel=6, mtime=0)).decode()
    return "\n".join(data[start : start + _LINE] for start in range(0, len(data), _LINE))


def phases(listed: ListedAttempt) -> Mapping[str, float]:
    """Seconds per phase of an attempt; empty if unknown."""
    if listed.row is None:
        return {}
    data = listed.view.file(listed.row.task_id, listed.row.repeat, "meta/timings.json")
    try:
        values = json.loads(data or b"{}")["phases_sec"]
        return {str(phase): float(value) for phase, value in values.items() if 0 <= float(value) < float("inf")}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _until_damaged(lines: Iterator[_Line], problems: list[str]) -> Iterator[_Line]:
    """The lines before the first damaged line, whose error is added to ``problems``."""
    try:
        yield from lines
    except InputError as error:
        problems.append(str(error))


def _logs(texts: Texts, phase: str) -> Sequence[tuple[str, Text]]:
    streams = ((stream, texts.file(f"logs/{phase}_{stream}.txt")) for stream in ("stdout", "stderr"))
    return [(stream, text) for stream, text in streams if text is not None and text.text.strip()]
