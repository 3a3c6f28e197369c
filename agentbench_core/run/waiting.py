"""Bounded waits: preflights, work done once per key, CPU slots, disk space."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from agentbench_core.errors import AgentBenchError, PluginError, RunStoppedError, SetupError, UnavailableError
from agentbench_core.plugin.registry import Component
from agentbench_core.run.signals import run_in_thread
from agentbench_core.values.limits import Deadline

T = TypeVar("T")

_GRACE_SEC = 5.0
"""Grace period in seconds, so that a component that respects its deadline can report what it was waiting for."""


def run_preflight(component: Component, question: Callable[[], T], *, seconds: float, what: str = "preflight") -> T:
    """Return the result of ``question``, a call to the component's ``preflight`` or ``what``, within ``seconds``.

    A thread that does not end is abandoned, since a thread cannot be killed.

    Raises:
        AgentBenchError: raised by the component.
        PluginError: the component raised anything else, including SystemExit.
        UnavailableError: the preflight did not end in time.
    """
    who = f"{component.kind} {component.name!r}"
    future = run_in_thread(question, f"{what} of {who}", Deadline(seconds), grace=_GRACE_SEC)
    if not future.done():
        raise UnavailableError(
            f"{who} of {component.source.distribution} did not complete its {what} within {seconds:g} s",
            remedy="Allow more time: --set run.preflight_sec=600. "
            f"Or choose a different {component.kind}: agentbench plugins list",
        )
    try:
        return future.result()
    except AgentBenchError:
        raise
    except BaseException as error:
        raise PluginError(
            f"{who} of {component.source.distribution} failed before the run: {type(error).__name__}: {error}",
            remedy=f"To diagnose it: agentbench plugins check {component.name}",
        ) from error


class OncePerKey(Generic[T]):
    """Results by key, computed by the first thread that requests them while the others wait.

    A SetupError is also a result, and is raised in every thread. Any other error only affects the thread in which it
    was raised; the next thread tries again.
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
        """The result for ``key``. Calls ``waited`` with the seconds spent while another thread computed it."""
        if key in self._made:
            return self._result(key)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        began = time.monotonic()
        while not lock.acquire(timeout=0.2):  # short, so that interrupts are handled
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

    def pop(self, key: Hashable) -> T | None:
        """Remove and return the result for ``key``; ``None`` if there is none, or if it is an error."""
        made = self._made.pop(key, None)
        return None if isinstance(made, SetupError) else made

    def _result(self, key: Hashable) -> T:
        made = self._made[key]
        if isinstance(made, SetupError):
            raise made
        return made


class CpuSlots:
    """Limits CPU-bound work, such as copying trees and taking snapshots, to one thread per CPU.

    More threads would only compete for the interpreter lock and slow down running agents.
    """

    def __init__(self, stop: Deadline) -> None:
        self._free = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._stop = stop

    @contextlib.contextmanager
    def slot(self) -> Iterator[float]:
        """Hold a slot inside the block, and yield the seconds waited. Raises Interrupted if the run is stopped."""
        began = time.monotonic()
        while not self._free.acquire(timeout=0.5):  # short, so that interrupts are handled
            self._stop.check()
        try:
            yield time.monotonic() - began
        finally:
            self._free.release()


PATIENCE_SEC = 600.0
"""Maximum seconds that a run waits for disk space before it stops."""

_POLL_SEC = 0.5


class DiskGuard:
    """Blocks callers while too little disk space is free. Thread-safe."""

    def __init__(self, paths: Sequence[Path], min_free_mb: int, note: Callable[[str], None], stop: Deadline) -> None:
        self._paths = paths
        self._min_free = min_free_mb << 20
        self._note = note
        self._stop = stop
        self._lock = threading.Lock()
        self._warned = False

    def wait(self) -> float:
        """Wait until enough space is free, and return the seconds waited.

        Raises RunStoppedError after ``PATIENCE_SEC`` without enough space, and Interrupted if the run is stopped.
        """
        started = time.monotonic()
        while shortage := self._shortage():
            with self._lock:
                if not self._warned:
                    self._warned = True
                    self._note(f"{shortage}: waiting for free space")
            self._stop.check()
            if time.monotonic() - started > PATIENCE_SEC:
                raise RunStoppedError(
                    f"{shortage}; gave up after waiting {PATIENCE_SEC / 60:g} minutes",
                    remedy="Free disk space and resume with --resume, or lower the limit: --set run.min_free_mb=N",
                )
            time.sleep(_POLL_SEC)
        self._warned = False
        return time.monotonic() - started

    def _shortage(self) -> str:
        for directory in self._paths:
            free = shutil.disk_usage(directory).free
            if free < self._min_free:
                return f"only {free >> 20} MB is free in {directory}, but run.min_free_mb is {self._min_free >> 20}"
        return ""
