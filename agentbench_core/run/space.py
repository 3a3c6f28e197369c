"""Room on the disks that a run writes to."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agentbench_core.errors import RunStoppedError
from agentbench_core.values.limits import Deadline

PATIENCE_SEC = 600.0
"""How long a run waits for room before it stops."""

_POLL_SEC = 0.5


class Space:
    """Holds up whoever is about to begin something while there is too little room. Thread-safe."""

    def __init__(self, places: Sequence[Path], min_free_mb: int, note: Callable[[str], None], stop: Deadline) -> None:
        self._places = places
        self._min_free = min_free_mb << 20
        self._note = note
        self._stop = stop
        self._guard = threading.Lock()
        self._said = False

    def wait(self) -> float:
        """Return when there is room; gives the seconds that it took.

        Raises RunStoppedError when there is none for too long, Interrupted when the run is stopped.
        """
        started = time.monotonic()
        while tight := self._tight():
            with self._guard:
                if not self._said:
                    self._said = True
                    self._note(f"{tight}: waiting for room")
            self._stop.check()
            if time.monotonic() - started > PATIENCE_SEC:
                raise RunStoppedError(
                    f"{tight}, for {PATIENCE_SEC / 60:g} minutes",
                    remedy="Make room and go on with --resume, or ask for less: --set run.min_free_mb=N",
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
