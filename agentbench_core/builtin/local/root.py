"""The one private directory on this machine in which a provider keeps everything that it makes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from agentbench_core import SandboxError

PREFIX = "agentbench-local-"
LOCK = "owner.lock"
UNLOCKED_AGE = 60.0
"""Seconds after which a root without a lock file counts as dead: its owner died between two lines."""


class PrivateRoot:
    """A temporary directory, made at first use, locked while its owner lives."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._path: Path | None = None
        self._lock = -1
        self._count = 0
        self._closed = False

    @property
    def path(self) -> Path:
        """Where it lies, without links."""
        with self._guard:
            if self._closed:
                raise SandboxError("the sandbox provider `local` is closed")
            if self._path is None:
                self._path = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
                self._lock = _try_lock(self._path)
                os.write(self._lock, b"%d\n" % os.getpid())
            return self._path

    def fresh(self, kind: str) -> Path:
        """A new empty directory of its own."""
        root = self.path
        with self._guard:
            self._count += 1
            directory = root / f"{kind}-{self._count}"
        directory.mkdir(mode=0o700)
        return directory

    def sweep(self) -> list[str]:
        """Remove the roots of dead owners; returns their paths."""
        removed = []
        for other in sorted(Path(tempfile.gettempdir()).glob(PREFIX + "*")):
            lock = _claim(other)
            if lock is not None:
                remove_tree(other)
                os.close(lock)
                removed.append(str(other))
        return removed

    def close(self) -> None:
        """Remove it, for good. Idempotent."""
        with self._guard:
            self._closed = True
            if self._path is not None:
                remove_tree(self._path)
                os.close(self._lock)
                self._path = None


def _claim(root: Path) -> int | None:
    """The lock of a root that is ours to remove; None where its owner lives, or it is another user's."""
    try:
        status = root.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return None
        if not (root / LOCK).exists() and time.time() - status.st_mtime < UNLOCKED_AGE:
            return None
        return _try_lock(root)
    except OSError:
        return None


def _try_lock(root: Path) -> int:
    import fcntl  # not everywhere; where it is missing, `preflight` says so first

    descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_tree(path: Path) -> None:
    """Remove a directory whatever the modes and however deep; what cannot go stays for the next sweep."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], stderr=subprocess.DEVNULL, check=False)
