"""Waits that have an end: components asked before a run, work done once, processor slots, room on the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from agentbench_core.errors import (
    AgentBenchError,
    InputError,
    PluginError,
    RunStoppedError,
    SetupError,
    UnavailableError,
)
from agentbench_core.plugin.registry import Component
from agentbench_core.run.signals import attend
from agentbench_core.values.limits import Deadline

T = TypeVar("T")

_GRACE_SEC = 5.0
"""What keeps to its own deadline says better than we what it waited for."""


def run_preflight(component: Component, question: Callable[[], T], *, seconds: float) -> T:
    """What ``question``, a call of the component's ``preflight``, answers within ``seconds``.

    A thread that never answers is left behind: a thread cannot be killed, and the command ends without it.

    Raises:
        AgentBenchError: what the component raised, if it is one of these.
        PluginError: it raised anything else, or wanted to end the program.
        UnavailableError: it has not answered.
    """
    who = f"{component.kind} {component.name!r}"
    asked = attend(question, f"preflight of {who}", Deadline(seconds), grace=_GRACE_SEC)
    if not asked.done():
        raise UnavailableError(
            f"{who} of {component.source.distribution} did not complete its preflight within {seconds:g} s",
            remedy="Try again with more time: --set run.preflight_sec=600. Or choose another: agentbench plugins list",
        )
    try:
        return asked.result()
    except AgentBenchError:
        raise
    except BaseException as error:
        raise PluginError(
            f"{who} of {component.source.distribution} failed before the run: {type(error).__name__}: {error}",
            remedy=f"To diagnose it: agentbench plugins check {component.name}",
        ) from error


class Obstacles:
    """What is in the way of a run, gathered: a person is told of everything at once."""

    def __init__(self) -> None:
        self._errors: list[InputError | UnavailableError] = []

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """An error of these kinds ends the block, and is kept."""
        try:
            yield
        except (InputError, UnavailableError) as error:
            self._errors.append(error)

    def refuse(self) -> None:
        """Raise what was gathered, each with what to do about it; of several kinds UnavailableError."""
        if not self._errors:
            return
        first, *more = self._errors
        if not more:
            raise first
        kind = type(first) if all(type(error) is type(first) for error in more) else UnavailableError
        raise kind(
            "\n".join([f"{len(self._errors)} problems must be fixed first", *map(_indented, self._errors)])
        ) from first


def _indented(error: AgentBenchError) -> str:
    return "- " + str(error).replace("\n", "\n  ")


class OncePerKey(Generic[T]):
    """Results by key, each made by the first thread that asks; the others wait until it is done, or all is stopped.

    A SetupError is a result too: it is raised for everyone. Any other error concerns only the thread that met
    it, and the next one tries again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._made: dict[Hashable, T | SetupError] = {}

    def get(
        self,
        key: Hashable,
        make: Callable[[], T],
        stop: Deadline,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> T:
        """The result for ``key``; ``waited`` is told for how many seconds another thread was making it."""
        if key in self._made:
            return self._result(key)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        began = time.monotonic()
        while not lock.acquire(timeout=0.2):  # short, so that an interrupt is seen
            stop.check()
        try:
            waited(time.monotonic() - began)
            if key not in self._made:
                try:
                    self._made[key] = make()
                except SetupError as error:
                    self._made[key] = error
        finally:
            lock.release()
        return self._result(key)

    def _result(self, key: Hashable) -> T:
        made = self._made[key]
        if isinstance(made, SetupError):
            raise made
        return made


class CpuSlots:
    """Lets as many threads as there are processors do what keeps one busy: copying trees, taking snapshots.

    Many at once would only take turns in the interpreter, at a price, and slow down the calls of agents at work.
    """

    def __init__(self, stop: Deadline) -> None:
        self._free = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._stop = stop

    @contextlib.contextmanager
    def slot(self) -> Iterator[float]:
        """A turn, once there is one; gives the seconds that it took. Raises Interrupted when the run is stopped."""
        began = time.monotonic()
        while not self._free.acquire(timeout=0.5):  # short, so that an interrupt is seen
            self._stop.check()
        try:
            yield time.monotonic() - began
        finally:
            self._free.release()


PATIENCE_SEC = 600.0
"""How long a run waits for room before it stops."""

_POLL_SEC = 0.5


class DiskGuard:
    """Makes callers wait while too little disk space is free. Thread-safe."""

    def __init__(self, places: Sequence[Path], min_free_mb: int, note: Callable[[str], None], stop: Deadline) -> None:
        self._places = places
        self._min_free = min_free_mb << 20
        self._note = note
        self._stop = stop
        self._lock = threading.Lock()
        self._said = False

    def wait(self) -> float:
        """Return when there is room; gives the seconds that it took.

        Raises RunStoppedError when there is none for too long, Interrupted when the run is stopped.
        """
        started = time.monotonic()
        while tight := self._tight():
            with self._lock:
                if not self._said:
                    self._said = True
                    self._note(f"{tight}: waiting for free space")
            self._stop.check()
            if time.monotonic() - started > PATIENCE_SEC:
                raise RunStoppedError(
                    f"{tight}, for {PATIENCE_SEC / 60:g} minutes",
                    remedy="Free disk space and resume with --resume, or lower the limit: --set run.min_free_mb=N",
                )
            time.sleep(_POLL_SEC)
        self._said = False
        return time.monotonic() - started

    def _tight(self) -> str:
        for place in self._places:
            free = shutil.disk_usage(place).free
            if free < self._min_free:
                return f"only {free >> 20} MB are free at {place}, and run.min_free_mb is {self._min_free >> 20}"
        return ""
