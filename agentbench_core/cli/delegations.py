"""Who delegated to whom in an attempt, drawn as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import attrs

from agentbench_core.values.events import Delegation, EventEntry, LLMRequest, LLMResponse, ToolCallStarted

_LINES = 200
"""As many are drawn: an agent may write what it likes."""
_NAME = 80  # characters of a name that are drawn


@attrs.define
class Party:
    """What the agents of an attempt did, by their names; ``children`` in the order in which they were asked."""

    children: dict[str, list[str]] = attrs.field(factory=dict)
    below: set[str] = attrs.field(factory=set)
    """Everybody who was asked. Who is asked again stays below the first who asked."""
    calls: Counter[str] = attrs.field(factory=Counter)
    steps: Counter[str] = attrs.field(factory=Counter)
    tokens: Counter[str] = attrs.field(factory=Counter)
    asking: dict[int, str] = attrs.field(factory=dict)

    def take(self, event: object) -> None:
        """Take in one event of the attempt."""
        if isinstance(event, Delegation):
            children = self.children.setdefault(event.parent, [])
            if event.child not in self.below:
                self.below.add(event.child)
                children.append(event.child)
        elif isinstance(event, LLMRequest) and event.exchange == 1:
            self.calls[event.agent] += 1
            self.asking[event.call] = event.agent
        elif isinstance(event, LLMResponse):
            self.tokens[self.asking.get(event.call, "")] += event.prompt_tokens + event.completion_tokens
        elif isinstance(event, ToolCallStarted):
            self.steps[event.agent] += 1

    def drawn(self) -> Iterator[str]:
        """A line per agent, children below their parents, up to a limit; nothing where nobody delegated."""
        yield from islice(self._lines(), _LINES)
        more = len({*self.children, *self.below}) - _LINES
        if more > 0:
            yield f"... and {more} more"

    def _lines(self) -> Iterator[str]:
        """Each agent once, also where they say that they asked each other."""
        first = sorted(self.children, key=lambda name: name in self.below)
        waiting = [(name, "", "") for name in reversed(first)]
        drawn: set[str] = set()
        while waiting:
            name, branch, indent = waiting.pop()
            if name in drawn:
                continue
            drawn.add(name)
            yield f"{branch}{self._said(name)}"
            children = [child for child in self.children.get(name, []) if child not in drawn]
            for child in reversed(children):
                last = child is children[-1]
                waiting.append((child, f"{indent}{'└─' if last else '├─'} ", f"{indent}{'   ' if last else '│  '}"))

    def _said(self, name: str) -> str:
        plain = " ".join(name.split())[:_NAME]
        return f"{plain}: {self.calls[name]} calls, {self.tokens[name]} tokens, {self.steps[name]} steps"


def parties(entries: Iterable[EventEntry]) -> Mapping[str, Party]:
    """The agents of each attempt, by attempt id."""
    found: dict[str, Party] = {}
    for entry in entries:
        if entry.attempt_id is not None:
            found.setdefault(entry.attempt_id, Party()).take(entry.event)
    return found
