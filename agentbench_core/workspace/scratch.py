"""A private directory for files that are needed only while its owner process lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import filelock

from agentbench_core.errors import SandboxError
from agentbench_core.workspace.tree import remove_tree

LOCK = "owner.lock"
UNFINISHED = ".new"
UNFINISHED_AGE = 60.0
"""Seconds after which a directory without a lock counts as dead: its owner died while creating it."""


class Scratch:
    """A directory in the system's temporary directory, created on first use and locked while its owner lives.

    The operating system releases the lock when the owner dies; :meth:`sweep` then removes the directory. Threads may
    share it.
    """

    def __init__(self, purpose: str) -> None:
        """``purpose`` becomes part of the directory's name."""
        self._purpose = purpose
        self._mutex = threading.Lock()
        self._path: Path | None = None
        self._lock: filelock.BaseFileLock | None = None
        self._count = 0
        self._closed = False

    @property
    def path(self) -> Path:
        """Path of the directory, without links. Raises SandboxError after :meth:`close`."""
        with self._mutex:
            if self._closed:
                raise SandboxError(f"the scratch directory for {self._purpose!r} is closed")
            if self._path is None:
                made = Path(tempfile.mkdtemp(prefix=_prefix(self._purpose), suffix=UNFINISHED)).resolve()
                # Not thread-local: a different thread from the one that created it may close it.
                self._lock = filelock.FileLock(made / LOCK, thread_local=False)
                self._lock.acquire()
                self._path = made.rename(made.with_suffix(""))  # from here on, the lock shows whether its owner lives
            return self._path

    def place(self, name: str) -> Path:
        """A path in its own new directory; ``name`` is the last part of the path."""
        return self.fresh(name) / name

    def fresh(self, name: str) -> Path:
        """Create an empty directory whose name starts with ``name``."""
        root = self.path
        with self._mutex:
            self._count += 1
            directory = root / f"{name}-{self._count}"
        directory.mkdir(mode=0o700)
        return directory

    @staticmethod
    def alive(path: Path) -> bool:
        """Whether the owner of the scratch directory at ``path`` lives; true if another user owns it, or if unknown."""
        try:
            if not _may_be_dead(path):
                return True
            with _without_owner(path):
                return False
        except FileNotFoundError:
            return False
        except OSError:
            return True

    @classmethod
    def leftovers(cls) -> Sequence[Path]:
        """The directories of this user, for any purpose, whose owner is dead."""
        paths = sorted(Path(tempfile.gettempdir()).glob(f"{_prefix('*')}*"))
        ours = [path for path in paths if path.suffix == UNFINISHED or (path / LOCK).exists()]
        return [path for path in ours if not cls.alive(path)]

    @staticmethod
    def discard(path: Path) -> None:
        """Remove an entry of a scratch directory early. Errors are ignored, since :meth:`close` tries again."""
        with contextlib.suppress(OSError):
            remove_tree(path)

    def close(self) -> Path | None:
        """Remove everything. Idempotent. Returns the directory if it could not be removed; the next sweep retries."""
        with self._mutex:
            self._closed = True
            path, self._path = self._path, None
            if path is None or self._lock is None:
                return None
            self.discard(path)
            self._lock.release()
            return path if path.exists() else None

    @staticmethod
    def sweep(purpose: str) -> Sequence[Path]:
        """Remove the directories of that purpose whose owner is dead, and return them."""
        removed = []
        for path in sorted(Path(tempfile.gettempdir()).glob(f"{_prefix(purpose)}*")):
            with contextlib.suppress(OSError):
                if _may_be_dead(path):
                    with _without_owner(path):
                        remove_tree(path)
                    removed.append(path)
        return removed


def _prefix(purpose: str) -> str:
    return f"agentbench-{purpose}-"


@contextlib.contextmanager
def _without_owner(path: Path) -> Iterator[None]:
    """Lock a directory whose owner is dead. Raises BlockingIOError if the owner lives, OSError for other errors.

    Creates nothing, unlike filelock: the owner may be removing the directory, which must not be created again.
    """
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        path.lstat()  # it exists: its owner died before it had a lock, or is removing it now
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _may_be_dead(path: Path) -> bool:
    """Whether a path is a directory of this user that is not being created; only its lock shows if the owner lives."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    finished = path.suffix != UNFINISHED and (path / LOCK).exists()
    return finished or time.time() - status.st_mtime >= UNFINISHED_AGE
