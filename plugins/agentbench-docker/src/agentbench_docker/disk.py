"""No container may fill the disk: a watch over what their workspaces and results grow to."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shutil
import stat
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import UnavailableError

INTERVAL = 1.0
FLOOR = 64 << 20
"""Bytes; a disk with less room is full: writes fail that are nobody's fault."""
_REST = 100
"""Counting takes a hundredth of the time, unless the disk's free space shrinks."""
_CONTAINER = re.compile(rb"[0-9a-f]{64}")
_BLOCK = 512


@attrs.frozen
class Usage:
    """What something takes on a disk."""

    bytes: int = 0
    files: int = 0
    """Files, directories and whatever else has an inode."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.files + other.files)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.bytes - other.bytes, self.files - other.files)

    def least(self, limit: Usage) -> Usage:
        """What is allowed to who has this: the limit, or an eighth of it more than there is."""
        return Usage(max(limit.bytes, self.bytes + limit.bytes // 8), max(limit.files, self.files + limit.files // 8))

    def over(self, other: Usage) -> bool:
        """Whether it is more, in either respect."""
        return self.bytes > other.bytes or self.files > other.files


@attrs.define(kw_only=True)
class _Watched:
    """Directories that a container writes to, and how it is killed."""

    container: str
    written: Sequence[Path]
    before: Path
    kill: Callable[[str], None]
    allowed: Usage
    base: Usage | None = None
    """The prepared tree, once it is counted: it is not the container's doing."""
    next_at: float = 0.0
    free: int = 0
    """Bytes that were free when it was counted last."""


class DiskWatch:
    """Counts what containers write, and kills who writes too much.

    The image's file system is read-only and all else in memory, so that the watched directories are the only way to the
    disk. Counted is what lies there, and files there that have no name any more and that a process still holds.
    """

    def __init__(self, limit: Usage) -> None:
        """``limit`` is what a container may add to its prepared tree. Raises UnavailableError without GNU ``find``."""
        self._limit = limit
        self._find = _find()
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def add(
        self, container: str, written: Sequence[Path], before: Path, kill: Callable[[str], None]
    ) -> Callable[[], None]:
        """Watch a container, by its id, until what is returned is called.

        ``kill`` is called if it wrote too much; with a reason, if the disk is full and nobody wrote too much.
        """
        number = next(self._numbers)
        watched = _Watched(
            container=container,
            written=written,
            before=before,
            kill=kill,
            allowed=self._limit,
            next_at=time.monotonic() + INTERVAL,
            free=_free(written[0]),
        )
        with self._lock:
            self._watched[number] = watched
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="disk watch", daemon=True)
                self._thread.start()

        def forget() -> None:
            with self._lock:
                self._watched.pop(number, None)

        return forget

    @contextlib.contextmanager
    def over(
        self, container: str, written: Sequence[Path], before: Path, kill: Callable[[str], None]
    ) -> Iterator[None]:
        """The same for as long as a block runs."""
        forget = self.add(container, written, before, kill)
        try:
            yield
        finally:
            forget()

    def look(self) -> None:
        """Count those whose time has come, and kill those who wrote too much.

        When a disk is full, all on it are counted; if none of them wrote too much, all are killed with that reason.
        """
        with self._lock:
            watched = tuple(self._watched.values())
        processes = functools.cache(_processes)  # read once, if at all
        killed = False
        for each in watched:
            free = _free(each.written[0])
            shrunk = each.free - free > self._limit.bytes // 8
            if (shrunk or free < FLOOR or time.monotonic() >= each.next_at) and self._is_over(each, processes):
                killed = True
                self._kill(each, "")
                left = self._count(each, processes().get(each.container, ()))
                each.allowed = left.least(self._limit)
        for each in watched:
            if not killed and (free := _free(each.written[0])) < FLOOR:
                self._kill(
                    each,
                    f"the disk is full, and no sandbox wrote too much: {free >> 20} MiB are free at {each.written[0]}",
                )

    def look_if_full(self, path: Path) -> None:
        """The same at once, if the disk of ``path`` is full: what has just failed there may not be to blame."""
        if _free(path) < FLOOR:
            self.look()

    def close(self) -> None:
        """End. Idempotent."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self.look()

    def _is_over(self, each: _Watched, processes: Callable[[], _Processes]) -> bool:
        began = time.monotonic()
        each.free = _free(each.written[0])
        usage = self._count(each, processes().get(each.container, ()), each.allowed)
        ended = time.monotonic()
        each.next_at = ended + max(INTERVAL, _REST * (ended - began))
        return usage.over(each.allowed)

    def _count(self, each: _Watched, processes: Sequence[Path], at_most: Usage | None = None) -> Usage:
        """What a container added to its prepared tree; when it is over ``at_most``, perhaps not all of it."""
        if each.base is None:
            each.base = self._tree(each.before)
        found = _nameless(processes, {_device(path) for path in each.written}) - each.base
        for path in each.written:
            found += self._tree(path, at_most and at_most - found)
        return found

    def _tree(self, path: Path, at_most: Usage | None = None) -> Usage:
        """What a tree takes; ``find`` copes with whatever lies there, however deep."""
        command = [*self._find, str(path), "-xdev", "-printf", "%b %y %n %i\\n"]
        found, several = Usage(), set()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        )
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                blocks, kind, names, inode = line.split()
                if names != b"1" and kind != b"d":
                    if inode in several:
                        continue
                    several.add(inode)
                found += Usage(int(blocks) * _BLOCK, 1)
                if at_most is not None and found.over(at_most):
                    process.kill()
                    break
        return found

    def _kill(self, each: _Watched, why: str) -> None:
        with contextlib.suppress(Exception):  # others are still to be watched; who cannot be killed says so
            each.kill(why)


_Processes = Mapping[str, Sequence[Path]]
"""Places in ``/proc`` by container."""


def _processes() -> _Processes:
    """What runs in containers, as far as this machine's process table shows it."""
    found = defaultdict(list)
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for container in set(_CONTAINER.findall((place / "cgroup").read_bytes())):
                found[container.decode()].append(place)
    return found


def _nameless(processes: Sequence[Path], devices: set[int]) -> Usage:
    """Files without a name on these devices that processes hold open, or in their memory."""
    found = {}
    for process in processes:
        for place in (*_opened(process), *_mapped(process)):
            with contextlib.suppress(OSError):
                status = place.stat()
                if status.st_nlink == 0 and status.st_dev in devices and stat.S_ISREG(status.st_mode):
                    found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
    return Usage(sum(found.values()), len(found))


def _opened(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:
        return []


def _mapped(process: Path) -> list[Path]:
    try:
        lines = (process / "maps").read_bytes().splitlines()
    except OSError:
        return []
    spans = [line.split(b" ", 1)[0].decode().split("-") for line in lines if line.endswith(b" (deleted)")]
    return [process / "map_files" / f"{int(start, 16):x}-{int(end, 16):x}" for start, end in spans]


def _find() -> list[str]:
    """A ``find`` that gets into directories that their owner has closed, who we are unless we are root."""
    ways = [["find"]] if os.geteuid() == 0 else [["unshare", "--map-root-user", "find"], ["find"]]
    for way in ways:
        with contextlib.suppress(OSError):
            tried = subprocess.run([*way, "/", "-maxdepth", "0", "-printf", "%y"], capture_output=True, check=False)
            if tried.stdout == b"d":
                return way
    raise UnavailableError("there is no GNU `find` on the PATH", remedy="Install findutils, for instance.")


def _device(path: Path) -> int:
    try:
        return path.stat().st_dev
    except OSError:
        return -1


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62  # gone: it takes nothing
