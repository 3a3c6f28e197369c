"""Turns at the harness's own heavy work."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from agentbench_core.values.limits import Deadline


class Turns:
    """Lets as many threads as there are processors do what keeps one busy: copying trees, taking snapshots.

    Many at once would only take turns in the interpreter, at a price, and slow down the calls of agents at work.
    """

    def __init__(self, stop: Deadline) -> None:
        self._free = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._stop = stop

    @contextlib.contextmanager
    def taken(self) -> Iterator[float]:
        """A turn, once there is one; gives the seconds that it took. Raises Interrupted when the run is stopped."""
        began = time.monotonic()
        while not self._free.acquire(timeout=0.5):  # short, so that an interrupt is seen
            self._stop.check()
        try:
            yield time.monotonic() - began
        finally:
            self._free.release()
