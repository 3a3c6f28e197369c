"""How a person stops what runs."""

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
"""Seconds; about three years, and safe to hand to every clock."""

_GRACE_SEC = 5.0
"""How long a scorer may take to notice that all is stopped."""


@contextlib.contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and a terminal that is closed stop a run as Ctrl-C does."""
    with _handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Signals go to a handler meanwhile, but for those that are ignored (as SIGHUP is under nohup)."""
    with contextlib.ExitStack() as stack:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with contextlib.suppress(ValueError):  # not in the main thread: whoever called us handles signals
                    stack.callback(signal.signal, number, signal.signal(number, handler))
        yield


class Interrupts:
    """The first Ctrl-C, SIGTERM or closed terminal ends a deadline, and the second ends the process.

    Sandboxes die with the process that owns them, and records are on disk: nothing is lost by the second one.
    """

    def __init__(self, stop: Deadline) -> None:
        self.ends = stop
        """What the first one ends."""
        self.seen = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Signals come here meanwhile."""
        with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._handle):
            yield

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # No locks here, and so no listener: the interrupted thread may hold them.
        if self.seen:
            os.write(2, b"interrupted again: killed\x1b[?25h\n")  # a live display hides the cursor
            os._exit(130)
        self.seen = True
        self.ends.end(Interrupted("the run was interrupted"))


def attend(work: Callable[[], T], name: str, until: Deadline, *, grace: float) -> Future[T]:
    """Run ``work``, code of a plugin, in a thread of its own; wait for its end, or until it had ``grace`` seconds more.

    Then the thread is left behind, since a thread cannot be killed, and the future is not done.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, also SystemExit, is told to who asks
            future.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    while thread.is_alive() and not until.expired:
        thread.join(min(0.2, until.remaining()))  # short, so that an interrupt is seen
    thread.join(grace)
    return future


def unless(stop: Deadline, work: Callable[[], T], name: str) -> T:
    """What ``work`` gives or raises. Raises Interrupted when all is stopped, and it does not notice."""
    done = attend(work, name, stop, grace=_GRACE_SEC)
    if not done.done():
        stop.check()
    return done.result()
