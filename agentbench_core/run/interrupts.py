"""How a person stops what runs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from agentbench_core.errors import Interrupted
from agentbench_core.values.limits import Deadline

FOR_EVER = 1e8
"""Seconds; about three years, and safe to hand to every clock."""


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
        self._stop = stop
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
        self._stop.end(Interrupted("the run was interrupted"))
