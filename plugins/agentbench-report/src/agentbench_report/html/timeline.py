"""The timeline and the delegation tree of an attempt, from its events."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import EventEntry, event_type

MAX_EVENTS = 2000
"""The maximum number of events shown per attempt, since an agent can cause any number of events."""
MAX_AGENTS = 200
_MAX_DETAIL = 300
"""The maximum number of characters per detail."""
_SHOWN_IF_ZERO = ("exit_code", "depth", "attempts", "kept")
_HIDDEN = ("exchange", 1)

_IDENTITIES: Mapping[str, Sequence[str]] = {
    "setup_command": (),
    "baseline": (),
    "tests": (),
    "tool_call": ("step",),
} | {"llm": ("call", "exchange")}
"""The fields that a start event and its end event have in common."""


@attrs.define(kw_only=True)
class TimelineRow:
    """A row of the timeline: a single event, or a start event with its end event. Times are in seconds."""

    kind: str
    at: float | None
    """Time since the start of the attempt; ``None`` if unreadable."""
    duration: float | None = None
    """``None`` for events without a duration."""
    unfinished: bool = False
    details: dict[str, object] = attrs.field(factory=dict)

    def shown(self) -> Iterator[tuple[str, str]]:
        """Names and values of the displayed details."""
        for name, value in self.details.items():
            if isinstance(value, bool):
                yield name, "yes" if value else "no"
            elif value in ("", None) or (name not in _SHOWN_IF_ZERO and value == 0) or (name, value) == _HIDDEN:
                continue
            else:
                text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
                yield name, text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}…"

    @property
    def bad(self) -> bool:
        """Whether the row shows a failure."""
        wrong = any(self.details.get(name) is False for name in ("ok", "passed", "failed_as_expected"))
        return wrong or bool(self.details.get("error")) or self.kind in ("warning", "infrastructure_error")


@attrs.define(kw_only=True)
class AgentActivity:
    """An agent of an attempt, with its model calls, tokens and steps."""

    name: str
    role: str = ""
    parent: str = ""
    depth: int = 0
    calls: int = 0
    tokens: int = 0
    steps: int = 0


@attrs.frozen(kw_only=True)
class Timeline:
    """The timeline of an attempt."""

    explanation: str
    rows: Sequence[TimelineRow]
    left_out: int
    """The number of events beyond ``MAX_EVENTS``."""
    total: float
    """Seconds from the first event to the end of the row that ends last."""
    agents: Sequence[AgentActivity]
    """The delegation tree: each agent follows the first agent that delegated to it. Empty without delegation."""
    step_durations: Mapping[int, float]
    step_agents: Mapping[int, str]
    """The agent of each step."""
    step_calls: Mapping[int, int]
    """The last model call, of any agent, that was requested before each step; 0 before the first."""


EMPTY = Timeline(
    explanation="", rows=(), left_out=0, total=0.0, agents=(), step_durations={}, step_agents={}, step_calls={}
)


@attrs.define
class _Collected:
    events: list[tuple[str, str, dict[str, Any]]] = attrs.field(factory=list)
    left_out: int = 0


def timelines(entries: Iterable[EventEntry], attempt_ids: Iterable[str]) -> Iterator[tuple[str, Timeline]]:
    """The id and timeline of each given attempt, in the order of their ends.

    Attempts without an end come last, with an empty timeline. ``entries`` are the events of the run, or at least those
    of the attempts. Events are kept in memory only until their attempt ends.
    """
    running = {attempt_id: _Collected() for attempt_id in attempt_ids}
    for entry in entries:
        collected = running.get(entry.attempt_id or "")
        if collected is None or entry.attempt_id is None:
            continue
        type_, fields = _fields(entry)
        if type_ != "task_finished" and len(collected.events) >= MAX_EVENTS:
            collected.left_out += 1
            continue
        collected.events.append((entry.at, type_, fields))
        if type_ == "task_finished":
            del running[entry.attempt_id]
            yield entry.attempt_id, _timeline(collected)
    for attempt_id in running:
        yield attempt_id, EMPTY


def _fields(entry: EventEntry) -> tuple[str, dict[str, Any]]:
    type_ = event_type(type(entry.event))
    fields = attrs.asdict(entry.event, recurse=False)
    if type_ == "task_finished":
        record = fields.pop("record")
        fields = {"outcome": str(record.outcome), "explanation": fields["explanation"]}
    return type_, fields


def _timeline(collected: _Collected) -> Timeline:
    events = collected.events
    first = _time(events[0][0])
    rows: list[TimelineRow] = []
    open_: dict[tuple[object, ...], TimelineRow] = {}
    durations: dict[int, float] = {}
    for at, word, fields in events:
        moment = _time(at)
        since = max(0.0, moment - first) if moment is not None and first is not None else None
        kind, _, stage = word.rpartition("_")
        details = {name: value for name, value in fields.items() if name not in ("duration_sec", "explanation")}
        if details.get("cached") is False:
            del details["cached"]
        elif "cached" in details and "duration_sec" in fields:  # the phase ran in another attempt
            details["took_sec"], fields["duration_sec"] = fields["duration_sec"], 0.0
        key = (kind, *(fields.get(name) for name in _IDENTITIES.get(kind, ())))
        if kind in _IDENTITIES and stage in ("started", "request"):
            open_[key] = TimelineRow(kind=kind, at=since, details=details, unfinished=True)
            rows.append(open_[key])
        elif key in open_:
            done = open_.pop(key)
            done.unfinished = False
            done.details |= details
            elapsed = since - done.at if since is not None and done.at is not None else None
            done.duration = fields.get("duration_sec", elapsed)
        else:
            kind = word.removesuffix("_") if kind not in _IDENTITIES else kind
            rows.append(TimelineRow(kind=kind, at=since, details=details, duration=fields.get("duration_sec")))
        if word == "tool_call_finished":
            durations[fields["step"]] = fields["duration_sec"]
    return Timeline(
        explanation=str(events[-1][2].get("explanation", "")),
        rows=rows,
        left_out=collected.left_out,
        total=max(((row.at or 0.0) + (row.duration or 0.0) for row in rows), default=0.0),
        agents=_agents(events),
        step_durations=durations,
        step_agents={fields["step"]: fields["agent"] for _, word, fields in events if word == "tool_call_started"},
        step_calls=_step_calls(events),
    )


def _time(at: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        return None


def _step_calls(events: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Mapping[int, int]:
    steps: dict[int, int] = {}
    last = 0
    for _, word, fields in events:
        if word == "llm_request":
            last = fields["call"]
        elif word == "tool_call_started":
            steps[fields["step"]] = last
    return steps


def _agents(events: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Sequence[AgentActivity]:
    agents: dict[str, AgentActivity] = {}
    children: dict[str, list[str]] = {}
    asking: dict[int, str] = {}
    calls, tokens, steps = Counter[str](), Counter[str](), Counter[str]()
    for _, word, fields in events:
        if word == "delegation":
            parent, child = fields["parent"], fields["child"]
            agents.setdefault(parent, AgentActivity(name=parent))
            if child not in agents:  # an agent stays below the first agent that delegated to it
                agents[child] = AgentActivity(name=child, role=fields["role"], parent=parent)
                children.setdefault(parent, []).append(child)
        elif word == "llm_request" and fields["exchange"] == 1:
            calls[fields["agent"]] += 1
            asking[fields["call"]] = fields["agent"]
        elif word == "llm_response":
            tokens[asking.get(fields["call"], "")] += fields["prompt_tokens"] + fields["completion_tokens"]
        elif word == "tool_call_started":
            steps[fields["agent"]] += 1
    waiting = [(party, 0) for party in reversed(agents.values()) if not party.parent]
    drawn: list[AgentActivity] = []
    while waiting and len(drawn) < MAX_AGENTS:
        party, depth = waiting.pop()
        name, party.depth = party.name, depth
        party.calls, party.tokens, party.steps = calls[name], tokens[name], steps[name]
        drawn.append(party)
        waiting += [(agents[child], depth + 1) for child in reversed(children.get(name, []))]
    return drawn
