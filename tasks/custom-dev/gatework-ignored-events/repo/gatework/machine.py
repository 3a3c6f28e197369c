"""Machines that follow a chart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from gatework.chart import Chart, Transition
from gatework.errors import MachineError


class Machine:
    """Is in states of a chart, and goes to others on events."""

    def __init__(self, chart: Chart, **data: object) -> None:
        self.chart = chart
        self.data = data
        self._active: list[str] = []
        self._last: dict[str, str] = {}
        self._started = False
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False

    @property
    def active(self) -> tuple[str, ...]:
        """The active states, outermost first."""
        return tuple(self._active)

    @property
    def state(self) -> str | None:
        """The innermost active state, None if there is none."""
        return self._active[-1] if self._active else None

    def start(self) -> None:
        """Enter the first state of the chart."""
        if self._started:
            raise MachineError("the machine was started before")
        self._started = True
        self._run(self._enter_initial)

    def send(self, event: str) -> None:
        """Do what the active states have for an event; nothing, if they have nothing."""
        if not self._started:
            raise MachineError(f"{event!r} was sent before the start")
        transition = self._transition(event)
        if transition is not None:
            self._run(partial(self._follow, transition))

    def _run(self, step: Callable[[], None]) -> None:
        """Run a step, and those that come up meanwhile, one after the other."""
        self._waiting.append(step)
        if self._running:
            return
        self._running = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._waiting.clear()
            self._running = False

    def _enter_initial(self) -> None:
        self._enter(self.chart.path(self.chart.initial))
        self._enter_below(self.chart.initial)

    def _transition(self, event: str) -> Transition | None:
        for name in reversed(self._active):
            for transition in self.chart[name].transitions(event):
                if transition.guard is None or transition.guard(self):
                    return transition
        return None

    def _follow(self, transition: Transition) -> None:
        stays = self.chart.common(self._active[-1], transition.target)
        while len(self._active) > len(stays):
            self._leave()
        if transition.action is not None:
            transition.action(self)
        self._enter(self.chart.path(transition.target)[len(stays) :])
        first = self._last.get(transition.target) if transition.history else None
        self._enter_below(transition.target, first)

    def _leave(self) -> None:
        state = self.chart[self._active[-1]]
        if state.exit is not None:
            state.exit(self)
        self._active.pop()
        if state.within is not None:
            self._last[state.within] = state.name

    def _enter(self, names: Iterable[str]) -> None:
        for name in names:
            self._active.append(name)
            entry = self.chart[name].entry
            if entry is not None:
                entry(self)

    def _enter_below(self, name: str, first: str | None = None) -> None:
        below = first or self.chart[name].initial
        while below is not None:
            self._enter([below])
            below = self.chart[below].initial
