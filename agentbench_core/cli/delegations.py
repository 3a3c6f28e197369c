"""Who delegated to whom in an attempt, drawn as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import attrs

from agentbench_core.values.events import Delegation, Entry, LLMRequest, LLMResponse, ToolCallStarted


@attrs.define
class Party:
    """What the agents of an attempt did, by their names; ``children`` in the order in which they were asked."""

    children: dict[str, list[str]] = attrs.field(factory=dict)
    calls: Counter[str] = attrs.field(factory=Counter)
    steps: Counter[str] = attrs.field(factory=Counter)
    tokens: Counter[str] = attrs.field(factory=Counter)
    asking: dict[int, str] = attrs.field(factory=dict)

    def take(self, event: object) -> None:
        """Take in one event of the attempt."""
        if isinstance(event, Delegation):
            self.children.setdefault(event.parent, []).append(event.child)
        elif isinstance(event, LLMRequest) and event.exchange == 1:
            self.calls[event.agent] += 1
            self.asking[event.call] = event.agent
        elif isinstance(event, LLMResponse):
            self.tokens[self.asking.get(event.call, "")] += event.prompt_tokens + event.completion_tokens
        elif isinstance(event, ToolCallStarted):
            self.steps[event.agent] += 1

    def drawn(self) -> Iterator[str]:
        """A line per agent, children below their parents; nothing where nobody delegated."""
        below = {child for children in self.children.values() for child in children}
        for name in self.children:
            if name not in below:
                yield self._said(name)
                yield from self._below(name, "", {name})

    def _below(self, name: str, indent: str, above: set[str]) -> Iterator[str]:
        children = self.children.get(name, [])
        for child in children:
            last = child is children[-1]
            yield f"{indent}{'└─' if last else '├─'} {self._said(child)}"
            if child not in above:  # an agent may write what it likes
                yield from self._below(child, f"{indent}{'   ' if last else '│  '}", above | {child})

    def _said(self, name: str) -> str:
        return f"{name}: {self.calls[name]} calls, {self.tokens[name]} tokens, {self.steps[name]} steps"


def parties(entries: Iterable[Entry]) -> Mapping[str, Party]:
    """The agents of each attempt, by attempt id."""
    found: dict[str, Party] = {}
    for entry in entries:
        if entry.attempt_id is not None:
            found.setdefault(entry.attempt_id, Party()).take(entry.event)
    return found
