"""Tracks which tickets exist and how many more are needed. Does not use Dask, so that it can be tested alone.

Information about tickets comes from Dask workers. A wrong event causes one worker process too many or too few.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

REFUSED = 5
"""Number of consecutive tickets that Dask could not run before this becomes an error."""
FIRST_WAIT = 0.1
"""Half of the seconds to wait before the next ticket after one failed; doubled with each further failure."""
STALE = 10.0
"""Seconds after which a queued ticket is submitted again if the cluster has free threads."""
NOTES = 50
"""Maximum number of notes about processes that failed."""
LONGEST = 300
"""Maximum length of a text from a Dask worker."""


class BoardError(Exception):
    """Dask cannot run tickets."""


class State(enum.StrEnum):
    """The state of a ticket."""

    QUEUED = enum.auto()
    RUNNING = enum.auto()
    PAUSED = enum.auto()  #: its process has ended, and it gives its node a pause


@attrs.define(kw_only=True)
class Ticket:
    """A ticket. ``held``: this launcher submitted it, so Dask reports its end."""

    state: State = State.QUEUED
    held: bool = True
    since: float
    worker: str = ""


class Board:
    """Maintains the desired number of tickets. Used by one thread only."""

    def __init__(
        self,
        group: str,
        prefix: str,
        *,
        submit: Callable[[str, Sequence[str]], None],
        cancel: Callable[[Sequence[str]], None],
        note: Callable[[str], None],
    ) -> None:
        """Create a board without tickets.

        Args:
            group: prefix of the names of all tickets of this coordinator.
            prefix: prefix of the names of new tickets; never used before.
            submit: submits a ticket, preferably to one of these workers; if there are none, Dask chooses.
            cancel: cancels tickets.
            note: shows a message to the user.
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
        """The number of tickets by state, and the number of finished tickets."""
        states = [ticket.state for ticket in self._tickets.values()]
        return {**{state.value: states.count(state) for state in State}, "finished": self.finished}

    @property
    def busy(self) -> bool:
        """Whether a process is running, as far as is known."""
        return any(ticket.state is State.RUNNING for ticket in self._tickets.values())

    def want(self, places: int) -> None:
        """Set the desired number of processes. Running ones are not stopped: each ends when it finds no work."""
        self._wanted = places
        surplus = len(self._live()) - places
        if surplus > 0:
            self._drop(self._queued()[-surplus:])

    def stop(self) -> None:
        """Cancel everything and submit nothing more. Events of processes are still recorded."""
        self._wanted = 0
        self._cancel([name for name, ticket in self._tickets.items() if ticket.held])
        for name in self._queued():
            del self._tickets[name]
        for ticket in self._tickets.values():
            ticket.held = False

    def fill(self) -> None:
        """Submit missing tickets. Tickets that pause on broken nodes do not count, so that other nodes replace them."""
        if time.monotonic() < self._not_before or (self._some_unable and not self._threads):
            return
        while len(self._live()) < self._wanted and len(self._tickets) < self._most:
            self._made += 1
            name = f"{self._prefix}{self._made}"
            self._tickets[name] = Ticket(since=time.monotonic())
            self._submit(name, self._preferred())

    def event(self, message: object, *, old: bool = False) -> None:
        """Record an event of a ticket; ``old``: sent to an earlier launcher. Anything else is ignored."""
        if not isinstance(message, Mapping):
            return
        name, state, worker = message.get("ticket"), message.get("state"), _short(message.get("worker"))
        if not isinstance(name, str) or not name.startswith(self._group) or len(name) > LONGEST:
            return
        if state == "started":
            if name not in self._tickets and len(self._tickets) >= self._most:
                return
            # An unknown ticket was submitted by a launcher that died.
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
        """Record that Dask has finished with a ticket."""
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
        """Compare the tickets with the current Dask workers and their numbers of threads.

        ``some_unable``: further workers exist, but cannot run tickets.
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
            # Without work stealing, Dask leaves them with the worker that it chose before others joined.
            self._drop(stale[:free])

    @property
    def _most(self) -> int:
        return 2 * self._wanted + 16

    def _preferred(self) -> Sequence[str]:
        """Workers with free threads, if Dask cannot know them: it forgets the tickets of a launcher that died."""
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
