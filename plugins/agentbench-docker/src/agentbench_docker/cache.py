"""Prepared environments, kept for later runs: an image of the engine, a workspace and a description on disk."""

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

import attrs
import filelock
import platformdirs

from agentbench_core import Deadline, InputError, dump, load, remove_tree

_POLL = 0.2
_IN_USE = "in-use-"


@attrs.frozen(kw_only=True)
class Entry:
    """One prepared environment."""

    key: str
    image: str
    """Id of the image that its containers are started from."""
    base: str
    """The name of the image that the task asked for."""
    base_id: str
    hosted: bool
    variables: Mapping[str, str]
    commit: str
    facts: Mapping[str, str]
    created_at: str
    tree: str
    """Which of the key's trees is the prepared one: to prepare anew makes another, since runs may use the old one."""
    volumes: tuple[str, ...]
    schema: int = 1

    @property
    def own_image(self) -> bool:
        """Whether set-up made an image; otherwise it is the base itself."""
        return self.image != self.base_id


class Cache:
    """A directory of environments, one below each key. Shared by all processes of a user."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or platformdirs.user_cache_path("agentbench") / "docker"
        self._notes: dict[str, filelock.BaseFileLock] = {}

    @property
    def mark(self) -> str:
        """Tells the images of this cache from those of another, which may have the same path elsewhere."""
        file = self.root / "mark"
        if not file.exists():
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile("w", dir=self.root) as draft, contextlib.suppress(FileExistsError):
                draft.write(secrets.token_hex(4))
                draft.flush()
                os.link(draft.name, file)  # the first process wins
        return file.read_text()

    def workspace(self, entry: Entry) -> Path:
        """Where the prepared tree of an environment lies."""
        return self._place(entry.key) / entry.tree / "workspace"

    @property
    def pip(self) -> Path:
        """Where set-ups keep what pip downloads."""
        return self.root / "pip"

    @contextlib.contextmanager
    def held(self, key: str, deadline: Deadline) -> Iterator[None]:
        """Be the only one who makes or removes that environment. Raises DeadlineExceeded."""
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = filelock.FileLock(place.with_suffix(".lock"), thread_local=False)
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
        """An environment that was prepared to its end, if there is one."""
        with contextlib.suppress(OSError, ValueError, InputError):
            return load(json.loads(self._description(key).read_text()), Entry, where="the cache")
        return None

    def fresh(self, key: str, tree: str) -> Path:
        """Where a new tree of an environment is to be made; the old ones stay if somebody works with them."""
        if not self._in_use(key):
            self.forget(key)
        place = self._place(key) / tree
        place.mkdir(parents=True, mode=0o700)
        return place / "workspace"

    def drop(self, key: str, tree: str) -> None:
        """Remove a tree that did not come to its end."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self._place(key) / tree)

    def forget(self, key: str) -> None:
        """Remove what is there of an environment; its description first, so that no half of it counts."""
        self._description(key).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self._place(key))

    def keep(self, entry: Entry) -> None:
        """Write the description: from here on it counts."""
        draft = self._description(entry.key).with_suffix(".draft")
        draft.write_text(json.dumps(dump(entry), indent=1))
        draft.replace(self._description(entry.key))

    def use(self, key: str) -> None:
        """Note that this process works with it, and when; forget those that are dead. Only who holds it may."""
        for note in self._place(key).glob(f"{_IN_USE}*"):
            if not _is_locked(note):
                note.unlink(missing_ok=True)
        if key not in self._notes:
            note = self._place(key) / f"{_IN_USE}{secrets.token_hex(8)}"
            self._notes[key] = filelock.FileLock(note, thread_local=False)
            self._notes[key].acquire()
        os.utime(self._description(key))

    def close(self) -> None:
        """Work with nothing any more. Idempotent."""
        while self._notes:
            _, note = self._notes.popitem()
            note.release()

    def entries(self) -> list[Entry]:
        """All that were prepared to their end, the one used last first."""
        found = [self.find(path.parent.name) for path in self.root.glob("environments/*/entry.json")]
        return sorted((entry for entry in found if entry), key=lambda entry: -self.used_at(entry))

    def used_at(self, entry: Entry) -> float:
        """When it was last used, in seconds of the epoch."""
        with contextlib.suppress(OSError):
            return self._description(entry.key).stat().st_mtime
        return 0.0

    def in_use(self, entry: Entry) -> bool:
        """Whether a provider that lives works with it."""
        return self._in_use(entry.key)

    def bytes_of(self, entry: Entry) -> int:
        """What its workspace takes on the disk."""
        total = 0
        for directory, _, names in os.walk(self.workspace(entry)):
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(directory, name).lstat().st_blocks * 512
        return total

    def _in_use(self, key: str) -> bool:
        return any(_is_locked(note) for note in self._place(key).glob(f"{_IN_USE}*"))

    def _place(self, key: str) -> Path:
        return self.root / "environments" / key.removeprefix("sha256:")[:32]

    def _description(self, key: str) -> Path:
        return self._place(key) / "entry.json"


def _is_locked(note: Path) -> bool:
    """Whether who made that note lives: the system frees the lock of who died, whichever paths others can see."""
    try:
        with note.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def now() -> str:
    """This moment, in UTC."""
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
