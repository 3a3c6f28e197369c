"""What happened in an attempt, from its events: when, how long, and who worked for whom."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import EventEntry, RunView, event_type

MOST_EVENTS = 2000
"""As many are kept of an attempt: an agent may cause any number."""
MOST_AGENTS = 200
_LONGEST = 300
"""Characters of one detail."""
_TELLING_ZEROS = ("exit_code", "depth", "attempts", "kept")
_USUAL = ("exchange", 1)

_IDENTITIES: Mapping[str, Sequence[str]] = {
    "setup_command": (),
    "baseline": (),
    "tests": (),
    "tool_call": ("step",),
} | {"llm": ("call", "exchange")}
"""What two events have in common that are the beginning and the end of one thing."""


@attrs.define(kw_only=True)
class Happening:
    """A row of the timeline: one event, or the beginning and the end of one thing. Times are seconds."""

    kind: str
    at: float | None
    """Since the attempt began; ``None`` when its time cannot be read."""
    duration: float | None = None
    """``None`` for what takes no time, and for what never ended."""
    unfinished: bool = False
    details: dict[str, object] = attrs.field(factory=dict)

    def shown(self) -> Iterator[tuple[str, str]]:
        """Names and values of what is worth saying."""
        for name, value in self.details.items():
            if isinstance(value, bool):
                yield name, "yes" if value else "no"
            elif value in ("", None) or (name not in _TELLING_ZEROS and value == 0) or (name, value) == _USUAL:
                continue
            else:
                said = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
                yield name, said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"

    @property
    def bad(self) -> bool:
        """Whether it tells of something that went wrong."""
        wrong = any(self.details.get(name) is False for name in ("ok", "passed", "failed_as_expected"))
        return wrong or bool(self.details.get("error")) or self.kind in ("warning", "infrastructure_error")


@attrs.define(kw_only=True)
class Party:
    """One agent of an attempt, and what it did."""

    name: str
    role: str = ""
    asked_by: str = ""
    depth: int = 0
    calls: int = 0
    tokens: int = 0
    steps: int = 0


@attrs.frozen(kw_only=True)
class Timeline:
    """All that the events of an attempt say."""

    explanation: str
    happenings: Sequence[Happening]
    left_out: int
    """Events beyond ``MOST_EVENTS``."""
    total: float
    """Seconds from the first event to the last end."""
    agents: Sequence[Party]
    """Empty where nobody delegated; else each below the one that asked it first."""
    step_durations: Mapping[int, float]


NOTHING = Timeline(explanation="", happenings=(), left_out=0, total=0.0, agents=(), step_durations={})


@attrs.define
class _Kept:
    events: list[tuple[str, str, dict[str, Any]]] = attrs.field(factory=list)
    left_out: int = 0


def timelines(view: RunView, wanted: Iterable[str]) -> Iterator[tuple[str, Timeline]]:
    """Attempt id and timeline of each attempt that is wanted, in the order in which they ended.

    Only events of attempts that have not ended yet are held.
    """
    kept = {attempt_id: _Kept() for attempt_id in wanted}
    for entry in view.events():
        held = kept.get(entry.attempt_id or "")
        if held is None or entry.attempt_id is None:
            continue
        word, fields = _plain(entry)
        if word != "task_finished" and len(held.events) >= MOST_EVENTS:
            held.left_out += 1
            continue
        held.events.append((entry.at, word, fields))
        if word == "task_finished":
            del kept[entry.attempt_id]
            yield entry.attempt_id, _timeline(held)
    for attempt_id in kept:
        yield attempt_id, NOTHING


def _plain(entry: EventEntry) -> tuple[str, dict[str, Any]]:
    word = event_type(type(entry.event))
    fields = attrs.asdict(entry.event, recurse=False)
    if word == "task_finished":
        record = fields.pop("record")
        fields = {"outcome": str(record.outcome), "explanation": fields["explanation"]}
    return word, fields


def _timeline(held: _Kept) -> Timeline:
    events = held.events
    first = _time(events[0][0])
    happenings: list[Happening] = []
    open_: dict[tuple[object, ...], Happening] = {}
    durations: dict[int, float] = {}
    for at, word, fields in events:
        moment = _time(at)
        since = max(0.0, moment - first) if moment is not None and first is not None else None
        kind, _, stage = word.rpartition("_")
        details = {name: value for name, value in fields.items() if name not in ("duration_sec", "explanation")}
        if details.get("cached") is False:
            del details["cached"]
        elif "cached" in details and "duration_sec" in fields:  # it took that time, but in another attempt
            details["took_sec"], fields["duration_sec"] = fields["duration_sec"], 0.0
        key = (kind, *(fields.get(name) for name in _IDENTITIES.get(kind, ())))
        if kind in _IDENTITIES and stage in ("started", "request"):
            open_[key] = Happening(kind=kind, at=since, details=details, unfinished=True)
            happenings.append(open_[key])
        elif key in open_:
            done = open_.pop(key)
            done.unfinished = False
            done.details |= details
            elapsed = since - done.at if since is not None and done.at is not None else None
            done.duration = fields.get("duration_sec", elapsed)
        else:
            kind = word.removesuffix("_") if kind not in _IDENTITIES else kind
            happenings.append(Happening(kind=kind, at=since, details=details, duration=fields.get("duration_sec")))
        if word == "tool_call_finished":
            durations[fields["step"]] = fields["duration_sec"]
    return Timeline(
        explanation=str(events[-1][2].get("explanation", "")),
        happenings=happenings,
        left_out=held.left_out,
        total=max(((one.at or 0.0) + (one.duration or 0.0) for one in happenings), default=0.0),
        agents=_agents(events),
        step_durations=durations,
    )


def _time(at: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        return None


def _agents(events: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Sequence[Party]:
    found: dict[str, Party] = {}
    children: dict[str, list[str]] = {}
    asking: dict[int, str] = {}
    calls, tokens, steps = Counter[str](), Counter[str](), Counter[str]()
    for _, word, fields in events:
        if word == "delegation":
            parent, child = fields["parent"], fields["child"]
            found.setdefault(parent, Party(name=parent))
            if child not in found:  # who is asked again stays below the first who asked
                found[child] = Party(name=child, role=fields["role"], asked_by=parent)
                children.setdefault(parent, []).append(child)
        elif word == "llm_request" and fields["exchange"] == 1:
            calls[fields["agent"]] += 1
            asking[fields["call"]] = fields["agent"]
        elif word == "llm_response":
            tokens[asking.get(fields["call"], "")] += fields["prompt_tokens"] + fields["completion_tokens"]
        elif word == "tool_call_started":
            steps[fields["agent"]] += 1
    waiting = [(party, 0) for party in reversed(found.values()) if not party.asked_by]
    drawn: list[Party] = []
    while waiting and len(drawn) < MOST_AGENTS:
        party, depth = waiting.pop()
        name, party.depth = party.name, depth
        party.calls, party.tokens, party.steps = calls[name], tokens[name], steps[name]
        drawn.append(party)
        waiting += [(found[child], depth + 1) for child in reversed(children.get(name, []))]
    return drawn
