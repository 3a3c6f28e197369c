"""The hooks for authors of executors, and the stage on which an executor runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from agentbench_core import Deadline, Executor, ExpectedAttempts, Work
from agentbench_testing.doubles.observing import LONG, done_soon, in_thread, soon
from agentbench_testing.doubles.work import WorkDouble

STOP_SEC = 10.0
"""Seconds for an executor to end after a stop, once all running attempts have ended."""
HOLD_SEC = 1.0
"""Seconds for which attempts are delayed, to check that an executor waits for them."""
_END_SEC = 5.0
"""Seconds for threads and processes to end after ``close``."""


class ExecutorHooks:
    """The hooks for authors of executors. ``make_executor`` is required."""

    patience: ClassVar[float] = 30.0  #: seconds to wait for something that should happen

    @classmethod
    def make_executor(cls) -> Executor:
        """A new executor."""
        raise NotImplementedError(f"{cls.__name__} must define how its executor is created")

    @pytest.fixture
    def stage(self) -> Iterator[Stage]:
        """The stage that runs executors. At the end, it interrupts all work."""
        stage = Stage(self.make_executor, self.patience)
        yield stage
        stage.end()


def expected(attempts: int, places: int) -> ExpectedAttempts:
    """What an executor can expect."""
    return ExpectedAttempts(attempts=attempts, places=places, deadline=Deadline(LONG))


@attrs.frozen(eq=False)
class Running:
    """An executor that runs work in a thread, as in the harness."""

    executor: Executor
    returned: Future[None]
    """The result of ``run``."""
    patience: float
    on_close: Callable[[Running], None]
    """Called before ``close``."""

    def wait(self) -> None:
        """Wait until ``run`` returns."""
        done_soon(self.returned, self.patience)

    def close(self) -> None:
        """Close the executor."""
        self.on_close(self)
        soon(self.executor.close, self.patience)


@attrs.define
class Stage:
    """Creates executors and runs work with them."""

    make_executor: Callable[[], Executor]
    patience: float
    _work: list[WorkDouble] = attrs.field(factory=list)
    _open: list[Running] = attrs.field(factory=list)

    def work(self, attempts: Sequence[Callable[[], object]], *, places: int) -> WorkDouble:
        """Work that ends with the test."""
        self._work.append(WorkDouble(attempts, places=places))
        return self._work[-1]

    def start(self, work: Work) -> Running:
        """A new executor that runs this work, after its preflight."""
        executor = self.make_executor()
        executor.preflight(expected(work.remaining, work.places))
        self._open.append(Running(executor, in_thread(lambda: executor.run(work)), self.patience, self._open.remove))
        return self._open[-1]

    def run(self, work: Work) -> None:
        """Run this work with a new executor, and close it."""
        running = self.start(work)
        running.wait()
        running.close()

    def end(self) -> None:
        """Interrupt all work, so that waiting attempts end, and close executors that a failed check has left open."""
        for work in self._work:
            work.interrupt()
        for running in list(self._open):
            with contextlib.suppress(Exception):  # the check has already failed
                running.close()


@attrs.frozen
class Before:
    """The threads and child processes at some point in time."""

    threads: frozenset[threading.Thread] = attrs.field(factory=lambda: frozenset(threading.enumerate()))
    children: frozenset[int] = attrs.field(factory=lambda: frozenset(children()))

    def more(self) -> Sequence[str]:
        """New threads and child processes that do not end soon."""
        give_up_at = time.monotonic() + _END_SEC
        while (found := self._more()) and time.monotonic() < give_up_at:
            time.sleep(0.02)
        return found

    def _more(self) -> Sequence[str]:
        threads = [f"thread {each.name}" for each in threading.enumerate() if each not in self.threads]
        return [*threads, *(f"process {name}" for pid, name in children().items() if pid not in self.children)]


def children() -> dict[int, str]:
    """Names of the child processes of this process, by process id. Needs Linux; elsewhere, none are found."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            pid, _, rest = (process / "stat").read_text(errors="replace").partition(" (")
        except OSError:  # it has just ended
            continue
        name, _, state_and_parent = rest.rpartition(") ")
        if state_and_parent.split()[1] == str(os.getpid()):
            found[int(pid)] = name
    return found


def close_twice(executor: Executor) -> None:
    """Close an executor twice. Raises AssertionError if the second call raises anything."""
    executor.close()
    try:
        executor.close()
    except Exception as error:
        raise AssertionError(f"closing the executor a second time raised {type(error).__name__}: {error}") from error
