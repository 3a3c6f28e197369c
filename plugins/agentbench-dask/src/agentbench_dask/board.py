"""Which tickets exist, and how many more are needed. Without Dask, so that it can be tested alone.

What is known about tickets comes from Dask workers. A wrong event costs a worker process too many or too few.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

REFUSED = 5
"""Number of tickets in succession that Dask could not run, after which this is an error."""
FIRST_WAIT = 0.1
"""Half of the seconds until a ticket follows one that failed; doubled with each further one."""
STALE = 10.0
"""Seconds after which a queued ticket is submitted again if the cluster has free threads."""
NOTES = 50
"""Maximum number of notes about processes that failed."""
LONGEST = 300
"""Maximum number of characters of a text from a Dask worker."""


class BoardError(Exception):
    """Dask runs no tickets."""


class State(enum.StrEnum):
    """What a ticket does."""

    QUEUED = enum.auto()
    RUNNING = enum.auto()
    PAUSED = enum.auto()  #: its process has ended, and it waits so that its node rests


@attrs.define(kw_only=True)
class Ticket:
    """A ticket. ``held``: this launcher submitted it, and learns of its end from Dask."""

    state: State = State.QUEUED
    held: bool = True
    since: float
    worker: str = ""


class Board:
    """Keeps as many tickets as are wanted. One thread calls it."""

    def __init__(
        self,
        group: str,
        prefix: str,
        *,
        submit: Callable[[str, Sequence[str]], None],
        cancel: Callable[[Sequence[str]], None],
        note: Callable[[str], None],
    ) -> None:
        """Without tickets.

        Args:
            group: with which the names of all tickets of this coordinator begin.
            prefix: with which the names of new tickets begin; never used before.
            submit: submits a ticket, preferably to one of these workers; none: Dask chooses.
            cancel: cancels tickets.
            note: tells the user something.
        """
        self._group = group
        self._prefix = prefix
        self._submit = submit
        self._cancel = cancel
        self._note = note
        self._tickets: dict[str, Ticket] = {}
        self._threads: Mapping[str, int] = {}
        self._some_unable = False
        self._wanted = 0
        self._made = 0
        self._refused = 0
        self._errors = 0
        self._not_before = 0.0
        self._noted: set[tuple[str, int]] = set()
        self.finished = 0

    def counts(self) -> dict[str, int]:
        """Number of tickets by state, and of those that have finished."""
        states = [ticket.state for ticket in self._tickets.values()]
        return {**{state.value: states.count(state) for state in State}, "finished": self.finished}

    @property
    def busy(self) -> bool:
        """Whether a process runs, as far as is known."""
        return any(ticket.state is State.RUNNING for ticket in self._tickets.values())

    def want(self, places: int) -> None:
        """Change how many processes are wanted. Those that run stay: each ends when it finds no work."""
        self._wanted = places
        surplus = len(self._live()) - places
        if surplus > 0:
            self._drop(self._queued()[-surplus:])

    def stop(self) -> None:
        """Cancel everything and submit nothing more; processes are still followed."""
        self._wanted = 0
        self._cancel([name for name, ticket in self._tickets.items() if ticket.held])
        for name in self._queued():
            del self._tickets[name]
        for ticket in self._tickets.values():
            ticket.held = False

    def fill(self) -> None:
        """Submit what is missing. Tickets that wait on broken nodes do not count, so that other nodes replace them."""
        if time.monotonic() < self._not_before or (self._some_unable and not self._threads):
            return
        while len(self._live()) < self._wanted and len(self._tickets) < self._most:
            self._made += 1
            name = f"{self._prefix}{self._made}"
            self._tickets[name] = Ticket(since=time.monotonic())
            self._submit(name, self._preferred())

    def event(self, message: object, *, old: bool = False) -> None:
        """What a ticket tells, or told an earlier launcher. Ignores everything else."""
        if not isinstance(message, Mapping):
            return
        name, state, worker = message.get("ticket"), message.get("state"), _short(message.get("worker"))
        if not isinstance(name, str) or not name.startswith(self._group) or len(name) > LONGEST:
            return
        if state == "started":
            if name not in self._tickets and len(self._tickets) >= self._most:
                return
            # An unknown one is of a launcher that died.
            ticket = self._tickets.setdefault(name, Ticket(held=False, since=time.monotonic()))
            ticket.state, ticket.worker, ticket.since = State.RUNNING, worker, time.monotonic()
            self._refused = 0
        elif state == "ended" and name in self._tickets:
            ticket = self._tickets[name]
            ticket.state, ticket.since = State.PAUSED, time.monotonic()
            if not ticket.held:
                del self._tickets[name]
            if not old:
                self._note_failure(message, worker)

    def done(self, name: str, status: str) -> None:
        """Dask is done with a ticket."""
        ticket = self._tickets.pop(name, None)
        if ticket is None:
            return
        self.finished += 1
        if status != "error":
            self._errors = 0
            return
        if ticket.worker:
            self._note(f"a worker process on {ticket.worker} failed: the Dask worker died, or its log has the error")
        else:
            self._refused += 1
            if self._refused >= REFUSED and not self.busy:
                raise BoardError(f"the Dask cluster could not start the last {REFUSED} worker processes")
        self._errors = min(self._errors, 3) + 1
        self._not_before = time.monotonic() + FIRST_WAIT * 2.0**self._errors

    def look(self, threads: Mapping[str, int], *, some_unable: bool = False) -> None:
        """Compare with the Dask workers that exist now, each with its number of threads.

        ``some_unable``: there are others, which cannot run tickets.
        """
        self._threads, self._some_unable = threads, some_unable
        for name, ticket in list(self._tickets.items()):
            if ticket.worker and ticket.worker not in threads:
                if ticket.held:  # Dask starts it again elsewhere
                    ticket.state, ticket.since = State.QUEUED, time.monotonic()
                else:
                    del self._tickets[name]
        free = sum(threads.values()) - sum(ticket.state is not State.QUEUED for ticket in self._tickets.values())
        before = time.monotonic() - STALE
        stale = [name for name in self._queued() if self._tickets[name].since < before]
        if free > 0 and stale:
            # Without work stealing, Dask leaves them with the worker that it chose when others had not joined yet.
            self._drop(stale[:free])

    @property
    def _most(self) -> int:
        return 2 * self._wanted + 16

    def _preferred(self) -> Sequence[str]:
        """Workers with room, if Dask does not know: it has forgotten what a launcher that died has started."""
        forgotten = [ticket.worker for ticket in self._tickets.values() if not ticket.held]
        if not forgotten:
            return list(self._threads) if self._some_unable else ()
        room = [worker for worker, threads in self._threads.items() if threads > forgotten.count(worker)]
        return room or list(self._threads)

    def _live(self) -> Sequence[str]:
        return [name for name, ticket in self._tickets.items() if ticket.state is not State.PAUSED]

    def _queued(self) -> list[str]:
        return [name for name, ticket in self._tickets.items() if ticket.state is State.QUEUED and ticket.held]

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            del self._tickets[name]
        self._cancel(names)

    def _note_failure(self, message: Mapping[Any, Any], worker: str) -> None:
        code = message.get("code")
        if not isinstance(code, int) or code == 0:
            return
        if (worker, code) not in self._noted and len(self._noted) < NOTES:
            self._noted.add((worker, code))
            problem = _short(message.get("problem"))
            self._note(f"a worker process on {worker} ended with exit code {code}{problem and ': '}{problem}")


def _short(text: object) -> str:
    return text[:LONGEST] if isinstance(text, str) else ""
