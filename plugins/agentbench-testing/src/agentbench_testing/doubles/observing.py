"""Observe files on the host, threads and processes, and control time."""

from __future__ import annotations

import contextlib
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait as wait_for
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from agentbench_core import Deadline, ExecResult, Finding, ToolError, UnavailableError


def contents(tree: Path) -> dict[str, tuple[int, bytes]]:
    """The mode, and the content or link target, of everything under a directory."""
    return {str(path.relative_to(tree)): (stat.S_IMODE(path.lstat().st_mode), _data(path)) for path in tree.rglob("*")}


def text_of(path: Path) -> str | None:
    """The content of a file; ``None`` if it does not exist."""
    return path.read_text() if path.is_file() else None


def _data(path: Path) -> bytes:
    if path.is_symlink():
        return b"-> " + bytes(path.readlink())
    return path.read_bytes() if path.is_file() else b""


@contextlib.contextmanager
def refused(error_type: str) -> Iterator[None]:
    """Require that the block raises a ToolError of this type."""
    with pytest.raises(ToolError) as caught:
        yield
    assert caught.value.error_type == error_type


def same(actual: bytes, expected: bytes) -> bool:
    """Compare values that are so long that pytest would take hours to show their difference."""
    return actual == expected


T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Run ``call`` in a daemon thread, and return the future of its result."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the result is requested
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def done_soon(future: Future[T], patience: float) -> T:
    """Return the result of a future. Raises AssertionError if it takes longer than ``patience`` seconds."""
    wait_for([future], timeout=patience)
    assert future.done(), f"it did not return within {patience:g} s"
    return future.result()


def soon(call: Callable[[], T], patience: float) -> T:
    """Return the result of ``call``. Raises AssertionError if it takes longer than ``patience`` seconds."""
    return done_soon(in_thread(call), patience)


def at_once(calls: Sequence[Callable[[], T]], patience: float) -> Sequence[T]:
    """The results, in order, of calls that start at the same time. Raises AssertionError if one takes too long."""
    barrier = threading.Barrier(len(calls))

    def begin(work: Callable[[], T]) -> T:
        barrier.wait(patience)
        return work()

    futures = [in_thread(partial(begin, work)) for work in calls]
    return [done_soon(future, patience) for future in futures]


LONG = 60.0
"""Seconds that are enough for everything that should not time out."""
BEAT = 0.05
"""Seconds between two beats."""
SILENCE = 0.5
"""Seconds without a beat after which a process counts as dead."""


class Pulse:
    """Observes a process that appends to a file: run ``script``, which has no quotes, with ``sh`` in the workspace."""

    def __init__(self, workspace: Path, patience: float) -> None:
        self._patience = patience
        self.name = name = f"pulse-{secrets.token_hex(4)}"
        self._file = workspace / name
        # The file is opened once, and its removal ends the process: a survivor must neither outlive the tests, nor
        # create a file in a directory that is being removed.
        self.script = f"while echo x && [ -e {name} ]; do sleep {BEAT}; done >> {name}"

    def beats(self) -> int:
        """A number that grows with each beat, and is 0 before the first: the size of the file."""
        with contextlib.suppress(FileNotFoundError):
            return self._file.stat().st_size
        return 0

    def lives(self) -> bool:
        """Whether the process beats again within ``patience`` seconds."""
        before = self.beats()
        give_up_at = time.monotonic() + self._patience
        while self.beats() == before and time.monotonic() < give_up_at:
            time.sleep(BEAT)
        return self.beats() > before

    def has_died(self) -> bool:
        """Whether there was at least one beat, and none during the last ``SILENCE`` seconds."""
        before = self.beats()
        time.sleep(SILENCE)
        return 0 < before == self.beats()

    @contextlib.contextmanager
    def at_first_beat(self, act: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call ``act`` in another thread at the first beat."""
        over = threading.Event()

        def monitor() -> None:
            while not over.is_set():
                if self.beats():
                    act()
                    return
                over.wait(BEAT / 5)

        watcher = threading.Thread(target=monitor, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def stop(self) -> None:
        """Make the process end by itself."""
        with contextlib.suppress(OSError):  # the workspace is removed, or read-only
            self._file.unlink()


@contextlib.contextmanager
def pulse(workspace: Path, patience: float) -> Iterator[Pulse]:
    """A pulse whose process, if it is still running, is told to stop at the end."""
    made = Pulse(workspace, patience)
    try:
        yield made
    finally:
        made.stop()


class FakeClock:
    """A clock for deadlines that pass without waiting. Thread-safe::

        clock = FakeClock()
        deadline = clock.deadline(60.0)
        clock.advance(59.0)
        assert deadline.remaining() == 1.0

    Pass it to ``Deadline`` or ``make_context`` as ``clock``. Commands in a sandbox take real time, which does not
    advance the clock, but a running command ends when the clock is advanced past its deadline.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time, in seconds since the clock was created."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Advance time. Raises ValueError if ``seconds`` is negative, since a monotonic clock never runs backwards."""
        if not seconds >= 0:
            raise ValueError(f"time cannot advance by {seconds} seconds")
        with self._lock:
            self._now += seconds

    def deadline(self, seconds: float) -> Deadline:
        """A deadline this many seconds from now, by this clock."""
        return Deadline(seconds, clock=self)


@attrs.define
class RecordingLog:
    """A setup log that records commands and their results."""

    commands: list[str] = attrs.field(factory=list)
    """Started commands."""
    finished_commands: list[str] = attrs.field(factory=list)  #: commands that have ended
    results: list[ExecResult] = attrs.field(factory=list)  #: their results
    reused_commands: list[str] = attrs.field(factory=list)  #: commands whose results come from an earlier setup
    on_start: Callable[[], None] = attrs.field(default=lambda: None)  #: called when a command starts

    def started(self, command: str) -> None:
        """Record the start of a command."""
        self.commands.append(command)
        self.on_start()

    def finished(self, command: str, result: ExecResult) -> None:
        """Record the end of a command."""
        self.finished_commands.append(command)
        self.results.append(result)

    def reused(self, command: str, result: ExecResult) -> None:
        """Record a command that was not run."""
        self.reused_commands.append(command)
        self.results.append(result)


def check_findings(component: object, *arguments: object) -> None:
    """Check the optional ``checks`` of a component: each returns a finding, with a remedy unless it is ``ok``."""
    checks = getattr(component, "checks", None)
    for name, check in (checks(*arguments) if checks else {}).items():
        with contextlib.suppress(UnavailableError):
            finding = check()
            assert isinstance(finding, Finding), f"check {name!r} returned {finding!r}"
            assert finding.status in ("ok", "warning", "failed"), finding
            assert finding.status == "ok" or finding.remedy, f"check {name!r} has no remedy: {finding}"
