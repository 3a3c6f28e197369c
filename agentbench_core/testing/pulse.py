"""A process that shows that it lives: it lets a file in the workspace grow, and the host looks at it."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

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

        def watch() -> None:
            while not over.is_set():
                if self.beats():
                    act()
                    return
                over.wait(BEAT / 5)

        watcher = threading.Thread(target=watch, daemon=True)
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
