"""What checks look at and wait for: trees on the host, threads, processes, and time."""

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

from agentbench_core import Deadline, ExecResult, ToolError


def contents(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: its mode, and its bytes or where it links to."""
    return {str(path.relative_to(tree)): (stat.S_IMODE(path.lstat().st_mode), _data(path)) for path in tree.rglob("*")}


def text_of(path: Path) -> str | None:
    """What a file says; nothing where there is none."""
    return path.read_text() if path.is_file() else None


def _data(path: Path) -> bytes:
    if path.is_symlink():
        return b"-> " + bytes(path.readlink())
    return path.read_bytes() if path.is_file() else b""


@contextlib.contextmanager
def refused(error_type: str) -> Iterator[None]:
    """What happens here must be refused with a ToolError of that type."""
    with pytest.raises(ToolError) as caught:
        yield
    assert caught.value.error_type == error_type


def same(found: bytes, expected: bytes) -> bool:
    """Whether they are; for those that are so long that pytest would look for their differences for hours."""
    return found == expected


T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> Future[T]:
    """What ``call`` will give or raise. The thread ends with the process at the latest."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def done_soon(future: Future[T], patience: float) -> T:
    """What comes of work that is under way; an AssertionError if that takes longer than ``patience`` seconds."""
    wait_for([future], timeout=patience)
    assert future.done(), f"it has not come back after {patience:g} s"
    return future.result()


def soon(call: Callable[[], T], patience: float) -> T:
    """What ``call`` gives or raises; an AssertionError if that takes longer than ``patience`` seconds."""
    return done_soon(in_thread(call), patience)


def at_once(works: Sequence[Callable[[], T]], patience: float) -> Sequence[T]:
    """What calls give that begin at the same time, in their order."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], T]) -> T:
        barrier.wait(patience)
        return work()

    futures = [in_thread(partial(begin, work)) for work in works]
    return [done_soon(future, patience) for future in futures]


LONG = 60.0
"""Seconds that suffice for whatever is not meant to run out of time."""
BEAT = 0.05
"""Seconds between two beats."""
SILENCE = 0.5
"""Seconds without a beat after which a process counts as dead."""


class Pulse:
    """One such process, or none. ``script``, without any quotes, is what ``sh`` runs in the workspace."""

    def __init__(self, workspace: Path, patience: float) -> None:
        self._patience = patience
        self.name = name = f"pulse-{secrets.token_hex(4)}"
        self._file = workspace / name
        self._stop = workspace / f"{name}.stop"
        # It also ends when the workspace is gone: a survivor shall not survive the tests.
        self.script = f"while echo x >> {name} && [ ! -e {name}.stop ]; do sleep {BEAT}; done"

    def beats(self) -> int:
        """How often it has beaten."""
        with contextlib.suppress(FileNotFoundError):
            return self._file.stat().st_size
        return 0

    def lives(self) -> bool:
        """Whether it beats once more, within the patience that one has."""
        before = self.beats()
        give_up_at = time.monotonic() + self._patience
        while self.beats() == before and time.monotonic() < give_up_at:
            time.sleep(BEAT)
        return self.beats() > before

    def has_died(self) -> bool:
        """Whether it has beaten, and does not any more."""
        before = self.beats()
        time.sleep(SILENCE)
        return 0 < before == self.beats()

    @contextlib.contextmanager
    def at_first_beat(self, act: Callable[[], None]) -> Iterator[None]:
        """Do something as soon as it beats, in another thread, while the block runs."""
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
        """Let it end by itself."""
        with contextlib.suppress(OSError):  # the workspace is gone, or read-only
            self._stop.touch()


@contextlib.contextmanager
def pulse(workspace: Path, patience: float) -> Iterator[Pulse]:
    """A pulse that is stopped at the end, should it still beat."""
    made = Pulse(workspace, patience)
    try:
        yield made
    finally:
        made.stop()


class FakeClock:
    """A clock for deadlines that pass without anybody waiting. Thread-safe::

        clock = FakeClock()
        deadline = clock.deadline(60.0)
        clock.advance(59.0)
        assert deadline.remaining() == 1.0

    ``Deadline(..., clock=clock)`` and ``make_context(..., clock=clock)`` take it. Commands in a sandbox take real time,
    which does not move it; but one that is running ends when the clock is put past its deadline.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time, in seconds since it was made."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for time that would run backwards: no monotonic clock does that."""
        if not seconds >= 0:
            raise ValueError(f"time cannot pass by {seconds} seconds")
        with self._lock:
            self._now += seconds

    def deadline(self, seconds: float) -> Deadline:
        """A deadline so many seconds from now, by this clock."""
        return Deadline(seconds, clock=self)


@attrs.define
class RecordingLog:
    """A set-up log that remembers."""

    commands: list[str] = attrs.field(factory=list)
    """Those that began."""
    finished_commands: list[str] = attrs.field(factory=list)
    results: list[ExecResult] = attrs.field(factory=list)
    on_start: Callable[[], None] = attrs.field(default=lambda: None)

    def started(self, command: str) -> None:
        """A command begins."""
        self.commands.append(command)
        self.on_start()

    def finished(self, command: str, result: ExecResult) -> None:
        """A command ended."""
        self.finished_commands.append(command)
        self.results.append(result)
