"""No container may fill the disk: a watch over what their workspaces and results grow to."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

INTERVAL = 1.0
_DU_SEC = 30.0


@attrs.define(kw_only=True)
class _Watched:
    """Directories that a container writes to, and how it is killed. Sizes are bytes."""

    written: Sequence[Path]
    before: Path
    """The prepared tree: its size is not the container's doing."""
    kill: Callable[[], None]
    free_before: int
    allowed: int


class DiskWatch:
    """Looks once a second how much room is left, and only when it shrinks at who takes it.

    The image's file system is read-only and all else in memory, so that these directories are the only way to the disk.
    """

    def __init__(self, limit_mb: int) -> None:
        self._limit = limit_mb << 20
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, written: Sequence[Path], before: Path, kill: Callable[[], None]) -> Callable[[], None]:
        """Watch these directories until what is returned is called; ``kill`` whoever writes too much to them."""
        number = next(self._numbers)
        with self._lock:
            self._watched[number] = _Watched(
                written=written, before=before, kill=kill, free_before=_free(written[0]), allowed=self._limit
            )
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="disk watch", daemon=True)
                self._thread.start()

        def forget() -> None:
            with self._lock:
                self._watched.pop(number, None)

        return forget

    @contextlib.contextmanager
    def over(self, written: Sequence[Path], before: Path, kill: Callable[[], None]) -> Iterator[None]:
        """The same for as long as a block runs."""
        forget = self.add(written, before, kill)
        try:
            yield
        finally:
            forget()

    def look(self) -> None:
        """Kill those who wrote too much. What is killed once may stay, and grow by an eighth of the limit."""
        with self._lock:
            watched = tuple(self._watched.values())
        for each in watched:
            if each.free_before - _free(each.written[0]) <= min(each.allowed, self._limit):
                continue
            grown = sum(map(used, each.written)) - used(each.before)
            if grown > each.allowed:
                each.allowed = grown + self._limit // 8
                with contextlib.suppress(Exception):  # others are still to be watched; who cannot be killed says so
                    each.kill()

    def close(self) -> None:
        """End. Idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self.look()


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62  # gone: it takes nothing


def used(path: Path) -> int:
    """Bytes that a tree takes; 0 when nobody can say. ``du`` copes with whatever lies there, however deep."""
    try:
        command = ["du", "-skx", "--", str(path)]
        asked = subprocess.run(
            command, capture_output=True, timeout=_DU_SEC, check=False, stdin=subprocess.DEVNULL, cwd="/"
        )
        return int(asked.stdout.split()[0]) << 10
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0
