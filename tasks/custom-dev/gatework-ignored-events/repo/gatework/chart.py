"""States, and how they lie within each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gatework.errors import ChartError

if TYPE_CHECKING:
    from gatework.machine import Machine

Action = Callable[["Machine"], object]
Guard = Callable[["Machine"], bool]


@dataclass(frozen=True)
class Transition:
    """Where an event leads."""

    target: str
    guard: Guard | None = None
    action: Action | None = None
    history: bool = False


@dataclass(frozen=True)
class State:
    """A state, and what happens on events while it is active."""

    name: str
    within: str | None = None
    initial: str | None = None
    entry: Action | None = None
    exit: Action | None = None
    on: Mapping[str, str | Transition | Sequence[Transition]] = field(default_factory=dict)

    def transitions(self, event: str) -> Sequence[Transition]:
        """The transitions for an event, in the order in which they are asked."""
        match self.on.get(event):
            case None:
                return []
            case str(target):
                return [Transition(target)]
            case Transition() as transition:
                return [transition]
            case several:
                return several


class Chart:
    """States that belong together; a machine starts in the first."""

    def __init__(self, *states: State) -> None:
        self._states = {state.name: state for state in states}
        if not states or len(self._states) < len(states):
            raise ChartError("a chart has at least one state, and each only once")
        self.initial = states[0].name
        for state in states:
            self._check(state)

    def __getitem__(self, name: str) -> State:
        return self._states[name]

    def path(self, name: str) -> tuple[str, ...]:
        """The states that contain a state, outermost first, and itself."""
        path = [name]
        while (within := self._states[path[0]].within) is not None:
            path.insert(0, within)
        return tuple(path)

    def common(self, one: str, other: str) -> tuple[str, ...]:
        """The states that contain both, outermost first."""
        shared: list[str] = []
        for first, second in zip(self.path(one), self.path(other), strict=False):
            if first != second or first == one == other:
                break
            shared.append(first)
        return tuple(shared)

    def _check(self, state: State) -> None:
        seen = {state.name}
        around = state.within
        while around is not None:
            if around not in self._states or around in seen:
                raise ChartError(f"{state.name!r} cannot be within {around!r}")
            seen.add(around)
            around = self._states[around].within
        contained: list[str | None] = [other.name for other in self._states.values() if other.within == state.name]
        if state.initial not in (contained or [None]):
            raise ChartError(f"{state.name!r} needs an initial state, and one that is directly within it")
        for event in state.on:
            for transition in state.transitions(event):
                if transition.target not in self._states:
                    raise ChartError(f"{state.name!r}, {event!r}: there is no state {transition.target!r}")
