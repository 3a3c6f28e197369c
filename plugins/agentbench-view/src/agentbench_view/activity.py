"""The activity of the running attempts of a run, from their events: phase, steps, cost and last tool call.

All texts come from agents. They are shortened here and escaped where they are displayed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import InputError, escape_control, shorten
from agentbench_core.harness import event_fields
from agentbench_view.events_index import EventsIndex, Span

MAX_SHOWN = 50
_LONGEST = 80
_LONGEST_NAME = 300
_PHASES = {
    "setup_command_started": "setup",
    "baseline_started": "baseline",
    "agent_turn_started": "agent",
    "llm_request": "agent",
    "llm_response": "agent",
    "llm_failed": "agent",
    "tool_call_started": "agent",
    "tests_started": "tests",
}
_INTERESTING = re.compile(rb'"attempt_id":("[^"\\\n]{1,200}"),"type":"(' + "|".join(_PHASES).encode() + rb')"')


@attrs.define(kw_only=True)
class Activity:
    """The activity of one attempt so far."""

    span: Span
    phase: str = "start"
    steps: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    """US dollars. A request with an unknown cost is included with its reserved cost."""
    tool: str = ""
    """The last tool call on one line, with its arguments."""
    _reserved: dict[tuple[object, object], float] = attrs.field(factory=dict)

    def see(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Process one event. Raises LookupError, TypeError, ValueError or OverflowError for wrong fields."""
        self.phase = _PHASES[kind]
        key = fields.get("call"), fields.get("exchange", 1)
        if kind == "tool_call_started":
            self.steps, self.tool = int(fields["step"]), _short(f"{fields['tool']} {fields.get('arguments') or ''}")
        elif kind == "llm_request":
            self.calls = int(fields["call"])
            self._reserved[key] = float(fields.get("reserved_usd") or 0.0)
            self.cost_usd += self._reserved[key]
        elif kind in ("llm_response", "llm_failed") and fields.get("cost_usd") is not None:
            self.cost_usd += float(fields["cost_usd"]) - self._reserved.pop(key, 0.0)

    def shown(self) -> dict[str, Any]:
        """The activity as plain data for the browser."""
        span = self.span
        name = span.task_id if span.repeat == 1 else f"{span.task_id}@{span.repeat}"
        return {
            "name": escape_control(name[:_LONGEST_NAME]),
            "at": span.at[:30],
            "phase": self.phase,
            "steps": self.steps,
            "calls": self.calls,
            "cost_usd": shown_usd(self.cost_usd),
            "tool": self.tool,
        }


@attrs.define
class Activities:
    """The running attempts, by attempt id. Each event is read once."""

    index: EventsIndex
    by_attempt: dict[str, Activity] = attrs.field(factory=dict)
    _read: int = 0
    _generation: int = 0

    def update(self) -> None:
        """Read the events appended since the last call. Extend the index first. Raises OSError."""
        if self._generation != self.index.generation:
            self.by_attempt, self._read, self._generation = {}, 0, self.index.generation
        running = self.index.running
        self.by_attempt = {attempt: each for attempt, each in self.by_attempt.items() if attempt in running}
        starts = [span.start for attempt, span in running.items() if attempt not in self.by_attempt]
        begin = self._read if self.by_attempt else min(starts, default=self.index.end)
        for attempt, span in running.items():
            self.by_attempt.setdefault(attempt, Activity(span=span))
        for _, line in self.index.lines(begin, None, b'"type":"'):
            self._see(line)
        self._read = self.index.end

    def _see(self, line: bytes) -> None:
        found = _INTERESTING.search(line, 0, 400)
        if found is None:
            return
        try:
            fields = event_fields(line, "")
            self.by_attempt[fields["attempt_id"]].see(fields["type"], fields)
        except (InputError, LookupError, TypeError, ValueError, OverflowError):
            return  # a damaged line, or an attempt that has ended


def shown_usd(usd: float) -> float | None:
    """A cost for JSON, which cannot represent infinity. A damaged run may contain infinite costs."""
    return round(usd, 6) if math.isfinite(usd) else None


def _short(text: object) -> str:
    return shorten(escape_control(" ".join(str(text)[: 4 * _LONGEST].split())), _LONGEST)
