"""The delegation tree of an attempt, drawn as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import attrs

from agentbench_core.values.events import Delegation, EventEntry, LLMRequest, LLMResponse, ToolCallStarted

_LINES = 200
"""Maximum number of agents drawn, since an agent can cause any number of delegations."""
_NAME = 80  # maximum characters of a name


@attrs.define
class AgentTree:
    """The agents of an attempt and their usage, by name; ``children`` are in order of delegation."""

    children: dict[str, list[str]] = attrs.field(factory=dict)
    delegated: set[str] = attrs.field(factory=set)
    """Every agent that was delegated to. An agent with several parents stays under the first."""
    calls: Counter[str] = attrs.field(factory=Counter)
    steps: Counter[str] = attrs.field(factory=Counter)
    tokens: Counter[str] = attrs.field(factory=Counter)
    agent_of_call: dict[int, str] = attrs.field(factory=dict)

    def add(self, event: object) -> None:
        """Add one event of the attempt."""
        if isinstance(event, Delegation):
            children = self.children.setdefault(event.parent, [])
            if event.child not in self.delegated:
                self.delegated.add(event.child)
                children.append(event.child)
        elif isinstance(event, LLMRequest) and event.exchange == 1:
            self.calls[event.agent] += 1
            self.agent_of_call[event.call] = event.agent
        elif isinstance(event, LLMResponse):
            self.tokens[self.agent_of_call.get(event.call, "")] += event.prompt_tokens + event.completion_tokens
        elif isinstance(event, ToolCallStarted):
            self.steps[event.agent] += 1

    def lines(self) -> Iterator[str]:
        """One line per agent, children below parents, and a count of any beyond a limit. Empty without delegations."""
        yield from islice(self._lines(), _LINES)
        more = len({*self.children, *self.delegated}) - _LINES
        if more > 0:
            yield f"... and {more} more"

    def _lines(self) -> Iterator[str]:
        """Yield each agent once, even if the events contain a cycle."""
        first = sorted(self.children, key=lambda name: name in self.delegated)
        pending = [(name, "", "") for name in reversed(first)]
        visited: set[str] = set()
        while pending:
            name, branch, indent = pending.pop()
            if name in visited:
                continue
            visited.add(name)
            yield f"{branch}{self._label(name)}"
            children = [child for child in self.children.get(name, []) if child not in visited]
            for child in reversed(children):
                last = child is children[-1]
                pending.append((child, f"{indent}{'└─' if last else '├─'} ", f"{indent}{'   ' if last else '│  '}"))

    def _label(self, name: str) -> str:
        plain = " ".join(name.split())[:_NAME]
        return f"{plain}: calls {self.calls[name]}, tokens {self.tokens[name]}, steps {self.steps[name]}"


def agent_trees(entries: Iterable[EventEntry]) -> Mapping[str, AgentTree]:
    """The agents of each attempt, by attempt id."""
    results: dict[str, AgentTree] = {}
    for entry in entries:
        if entry.attempt_id is not None:
            results.setdefault(entry.attempt_id, AgentTree()).add(entry.event)
    return results
