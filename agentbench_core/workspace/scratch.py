"""A private place for files that live no longer than the process that owns it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import filelock

from agentbench_core.workspace.tree import remove_tree

_LOCK = "owner.lock"


class Scratch:
    """A directory below the system's temporary one, held by a lock while its owner lives.

    The operating system frees the lock when the owner dies, however it dies; :meth:`sweep` then finds it.
    """

    def __init__(self, purpose: str) -> None:
        """Make the directory; ``purpose`` becomes part of its name."""
        self.path = Path(tempfile.mkdtemp(prefix=f"agentbench-{purpose}-")).resolve()
        self._lock = filelock.FileLock(self.path / _LOCK)
        self._lock.acquire()

    def new(self, name: str) -> Path:
        """A path below it that does not exist yet, with ``name`` in it."""
        inside = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.path))
        return inside / name

    def close(self) -> None:
        """Remove everything. Idempotent."""
        if self._lock.is_locked:
            remove_tree(self.path)
            self._lock.release()

    @staticmethod
    def sweep(purpose: str) -> Sequence[Path]:
        """Remove the directories of that purpose whose owner is dead; returns them."""
        removed = []
        for path in sorted(Path(tempfile.gettempdir()).glob(f"agentbench-{purpose}-*")):
            lock = filelock.FileLock(path / _LOCK)
            try:
                if not (path / _LOCK).exists() or path.stat().st_uid != os.getuid():
                    continue  # being made, or somebody else's
                lock.acquire(blocking=False)
            except (filelock.Timeout, OSError):
                continue
            remove_tree(path)
            lock.release()
            removed.append(path)
        return removed
