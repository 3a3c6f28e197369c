"""Interrupting a run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import TypeVar

from agentbench_core.errors import Interrupted
from agentbench_core.values.limits import Deadline

T = TypeVar("T")

FOR_EVER = 1e8
"""A time limit that is never reached, in seconds: about three years."""

_GRACE_SEC = 5.0
"""Seconds that a scorer has to stop scoring or calibrating after an interrupt."""


@contextlib.contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """Inside the block, treat SIGTERM and a closed terminal like Ctrl-C."""
    with _handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle signals inside the block, except ignored ones (such as SIGHUP under nohup)."""
    with contextlib.ExitStack() as stack:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with contextlib.suppress(ValueError):  # not in the main thread: the caller handles signals
                    stack.callback(signal.signal, number, signal.signal(number, handler))
        yield


class Interrupts:
    """The first interrupt (Ctrl-C, SIGTERM or a closed terminal) ends a deadline; the second ends the process.

    Sandboxes end with the process, and records are on disk, so the second interrupt loses no recorded attempt.
    """

    def __init__(self, stop: Deadline) -> None:
        self.ends = stop
        """The deadline that the first interrupt ends."""
        self.interrupted = False

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Handle signals inside the block."""
        with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._handle):
            yield

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # No locks, and therefore no observer: the interrupted thread may hold them.
        if self.interrupted:
            os.write(2, b"interrupted again: killed\x1b[?25h\n")  # a live display hides the cursor
            os._exit(130)
        self.interrupted = True
        self.ends.end(Interrupted("the run was interrupted"))


def run_in_thread(work: Callable[[], T], name: str, until: Deadline, *, grace: float) -> Future[T]:
    """Run ``work`` (plugin code) in its own thread, and wait for it, at most ``grace`` seconds after ``until`` expires.

    A thread that has not ended by then is abandoned, since it cannot be killed, and the future is not done.
    """
    thread, future = in_thread(work, name)
    while thread.is_alive() and not until.expired:
        thread.join(min(0.2, until.remaining()))  # short, so that interrupts are handled
    thread.join(grace)
    return future


def in_thread(work: Callable[[], T], name: str) -> tuple[threading.Thread, Future[T]]:
    """Start ``work`` in its own thread. The future receives its result, or the exception that it raises."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - everything, including SystemExit, is raised in the caller
            future.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, future


def until_stopped(stop: Deadline, work: Callable[[], T], name: str) -> T:
    """Return the result of ``work`` or raise its exception. Raises Interrupted if it does not end after a stop."""
    done = run_in_thread(work, name, stop, grace=_GRACE_SEC)
    if not done.done():
        stop.check()
    return done.result()
