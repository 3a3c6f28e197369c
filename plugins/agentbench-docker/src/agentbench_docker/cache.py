"""The cache of prepared environments and layers. Each has an engine image, a directory and a description file."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs
import filelock
import platformdirs

from agentbench_core import Deadline, InputError, dump, load, remove_tree

_POLL = 0.2
_IN_USE = "in-use-"


@attrs.frozen(kw_only=True)
class Entry:
    """One prepared environment, or a layer that environments start from."""

    key: str
    kind: Literal["environment", "layer"] = "environment"
    image: str
    """Id of the image for its containers."""
    base: str
    """Name of the task's base image."""
    base_id: str
    hosted: bool
    variables: Mapping[str, str]
    commit: str
    """Commit of the workspace; empty for a layer."""
    facts: Mapping[str, str]
    created_at: str
    tree: str
    """Name of the prepared tree. Each preparation creates a new tree, since other runs may still use the old one."""
    volumes: tuple[str, ...]
    layer: str = ""
    """Key of the layer that the environment starts from; empty if there is none."""
    layer_id: str = ""
    """Id of that layer's image."""
    schema: int = 1

    @property
    def own_image(self) -> bool:
        """Whether setup created an image; otherwise the base image is used."""
        return self.image != self.base_id


class Cache:
    """A directory of environments by key, shared by all processes of a user."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or platformdirs.user_cache_path("agentbench") / "docker"
        self._use_locks: dict[str, filelock.BaseFileLock] = {}

    @property
    def mark(self) -> str:
        """A random id that is part of the names of this cache's images. Paths are not unique across machines."""
        file = self.root / "mark"
        if not file.exists():
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile("w", dir=self.root) as draft, contextlib.suppress(FileExistsError):
                draft.write(secrets.token_hex(4))
                draft.flush()
                os.link(draft.name, file)  # the first process wins
        return file.read_text()

    def workspace(self, entry: Entry) -> Path:
        """Path of the prepared tree of an environment."""
        return self._directory(entry.key) / entry.tree / "workspace"

    @property
    def pip(self) -> Path:
        """Directory of the shared pip cache."""
        return self.root / "pip"

    @contextlib.contextmanager
    def lock(self, key: str, deadline: Deadline) -> Iterator[None]:
        """Lock an environment for preparation or removal. Raises DeadlineExceeded if it stays locked."""
        directory = self._directory(key)
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = filelock.FileLock(directory.with_suffix(".lock"), thread_local=False)
        while True:
            deadline.check()
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=_POLL)
                break
        try:
            yield
        finally:
            lock.release()

    def find(self, key: str) -> Entry | None:
        """The environment with this key, if it was prepared completely."""
        with contextlib.suppress(OSError, ValueError, InputError):
            return load(json.loads(self._description_path(key).read_text()), Entry, where="the cache")
        return None

    def new_tree(self, key: str, tree: str) -> Path:
        """Remove the old environment unless it is in use. Create a new tree's directory, and return the tree's path."""
        if not self._in_use(key):
            self.remove(key)
        directory = self._directory(key) / tree
        directory.mkdir(parents=True, mode=0o700)
        return directory / "workspace"

    def discard_tree(self, key: str, tree: str) -> None:
        """Remove an incomplete tree."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self._directory(key) / tree)

    def remove(self, key: str) -> None:
        """Remove an environment. The description is removed first: a partly removed environment is not found."""
        self._description_path(key).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self._directory(key))

    def save(self, entry: Entry) -> None:
        """Write the description atomically, which makes the environment available."""
        draft = self._description_path(entry.key).with_suffix(".draft")
        draft.write_text(json.dumps(dump(entry), indent=1))
        draft.replace(self._description_path(entry.key))

    def mark_used(self, key: str) -> None:
        """Mark an environment as used by this process now, and remove stale marks. Requires the lock."""
        for mark in self._directory(key).glob(f"{_IN_USE}*"):
            if not _is_locked(mark):
                mark.unlink(missing_ok=True)
        if key not in self._use_locks:
            mark = self._directory(key) / f"{_IN_USE}{secrets.token_hex(8)}"
            self._use_locks[key] = filelock.FileLock(mark, thread_local=False)
            self._use_locks[key].acquire()
        os.utime(self._description_path(key))

    def close(self) -> None:
        """Release all environments that this process uses. Idempotent."""
        while self._use_locks:
            _, mark = self._use_locks.popitem()
            mark.release()

    def entries(self) -> list[Entry]:
        """All complete environments, most recently used first."""
        entries = [self.find(path.parent.name) for path in self.root.glob("environments/*/entry.json")]
        return sorted((entry for entry in entries if entry), key=lambda entry: -self.used_at(entry))

    def used_at(self, entry: Entry) -> float:
        """Time of last use, in seconds since the epoch."""
        with contextlib.suppress(OSError):
            return self._description_path(entry.key).stat().st_mtime
        return 0.0

    def in_use(self, entry: Entry) -> bool:
        """Whether a running provider uses it."""
        return self._in_use(entry.key)

    def bytes_of(self, entry: Entry) -> int:
        """Disk usage of the files in its workspace, in bytes."""
        total = 0
        for directory, _, names in os.walk(self.workspace(entry)):
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(directory, name).lstat().st_blocks * 512
        return total

    def _in_use(self, key: str) -> bool:
        return any(_is_locked(mark) for mark in self._directory(key).glob(f"{_IN_USE}*"))

    def _directory(self, key: str) -> Path:
        return self.root / "environments" / key.removeprefix("sha256:")[:32]

    def _description_path(self, key: str) -> Path:
        return self._directory(key) / "entry.json"


def _is_locked(mark: Path) -> bool:
    """Whether a process holds the lock of this file. The kernel releases the lock when the process exits."""
    try:
        with mark.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def now() -> str:
    """The current time in UTC, as ISO 8601."""
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
