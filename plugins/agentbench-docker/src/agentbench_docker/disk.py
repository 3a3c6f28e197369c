"""Limits the disk usage of containers."""

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
"""Minimum number of free bytes. A disk with fewer counts as full, since writes by other programs may fail."""
_REST = 100
"""Pause between counts, as a multiple of the duration of a count, unless free disk space shrinks."""
_CONTAINER = re.compile(rb"[0-9a-f]{64}")
_BLOCK = 512


@attrs.frozen
class Usage:
    """Disk usage."""

    bytes: int = 0
    files: int = 0
    """Number of inodes: files, directories and others."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.files + other.files)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.bytes - other.bytes, self.files - other.files)

    def allowance(self, limit: Usage) -> Usage:
        """Allowed usage of a container that was killed at this usage: the larger of the limit, and this usage plus an
        eighth of the limit."""
        return Usage(max(limit.bytes, self.bytes + limit.bytes // 8), max(limit.files, self.files + limit.files // 8))

    def exceeds(self, other: Usage) -> bool:
        """Whether it exceeds ``other`` in bytes or files."""
        return self.bytes > other.bytes or self.files > other.files


@attrs.define(kw_only=True)
class _Watched:
    """A watched container: the directories that it writes to and the callback that kills it."""

    container: str
    written: Sequence[Path]
    before: Path
    kill: Callable[[str], None]
    allowed: Usage
    base: Usage | None = None
    """Usage of the prepared tree, which does not count toward the limit; None until measured."""
    next_at: float = 0.0
    free: int = 0
    """Number of free bytes on the disk at the last count."""


class DiskWatch:
    """Measures the disk usage of containers and kills those that exceed their limit.

    By default, the image's file system is read-only and everything else is in memory, so containers can use the disk
    only through the watched directories. Deleted files that a process still holds open also count.
    """

    def __init__(self, limit: Usage) -> None:
        """``limit`` is the allowed usage beyond the prepared tree. Raises UnavailableError if GNU find is missing."""
        self._limit = limit
        self._find = _find()
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._numbers = itertools.count()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(
        self, container: str, written: Sequence[Path], before: Path, kill: Callable[[str], None]
    ) -> Callable[[], None]:
        """Watch a container, by its id, until the returned function is called.

        ``kill`` is called with an empty string if the container exceeds its limit, and with a reason if the disk is
        full but no container exceeds its limit.
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
    def watching(
        self, container: str, written: Sequence[Path], before: Path, kill: Callable[[str], None]
    ) -> Iterator[None]:
        """Watch a container for the duration of a ``with`` block."""
        forget = self.add(container, written, before, kill)
        try:
            yield
        finally:
            forget()

    def check(self) -> None:
        """Measure the containers that are due or whose disk is filling up, and kill those that exceed their limit.

        When a disk is full, all containers on it are measured. If this call has killed no container for exceeding its
        limit, it kills all of them.
        """
        with self._lock:
            watched = tuple(self._watched.values())
        processes = functools.cache(_processes)  # read once, if at all
        killed = False
        for entry in watched:
            free = _free(entry.written[0])
            shrunk = entry.free - free > self._limit.bytes // 8
            if (shrunk or free < FLOOR or time.monotonic() >= entry.next_at) and self._exceeds_limit(entry, processes):
                killed = True
                self._kill(entry, "")
                usage = self._count(entry, processes().get(entry.container, ()))
                entry.allowed = usage.allowance(self._limit)
        for entry in watched:
            if not killed and (free := _free(entry.written[0])) < FLOOR:
                self._kill(
                    entry,
                    f"the disk is full, but no sandbox exceeded its limit: {free >> 20} MiB free at {entry.written[0]}",
                )

    def check_if_full(self, path: Path) -> None:
        """Call ``check`` now if the disk of ``path`` is full, since that may have caused a failure."""
        if _free(path) < FLOOR:
            self.check()

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self.check()

    def _exceeds_limit(self, entry: _Watched, processes: Callable[[], _Processes]) -> bool:
        began = time.monotonic()
        entry.free = _free(entry.written[0])
        usage = self._count(entry, processes().get(entry.container, ()), entry.allowed)
        ended = time.monotonic()
        entry.next_at = ended + max(INTERVAL, _REST * (ended - began))
        return usage.exceeds(entry.allowed)

    def _count(self, entry: _Watched, processes: Sequence[Path], at_most: Usage | None = None) -> Usage:
        """Usage beyond the prepared tree. Counting may stop once it exceeds ``at_most``."""
        if entry.base is None:
            entry.base = self._tree(entry.before)
        usage = _deleted_files(processes, {_device(path) for path in entry.written}) - entry.base
        for path in entry.written:
            usage += self._tree(path, at_most and at_most - usage)
        return usage

    def _tree(self, path: Path, at_most: Usage | None = None) -> Usage:
        """Usage of a tree. Uses ``find``, which handles trees of any depth."""
        command = [*self._find, str(path), "-xdev", "-printf", "%b %y %n %i\\n"]
        usage, seen = Usage(), set()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        )
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                blocks, kind, names, inode = line.split()
                if names != b"1" and kind != b"d":
                    if inode in seen:
                        continue
                    seen.add(inode)
                usage += Usage(int(blocks) * _BLOCK, 1)
                if at_most is not None and usage.exceeds(at_most):
                    process.kill()
                    break
        return usage

    def _kill(self, entry: _Watched, why: str) -> None:
        with contextlib.suppress(Exception):  # continue to watch the others; the sandbox reports the failure
            entry.kill(why)


_Processes = Mapping[str, Sequence[Path]]
"""Directories in ``/proc`` by container id."""


def _processes() -> _Processes:
    """Processes of containers that are visible in this machine's process table."""
    result = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for container in set(_CONTAINER.findall((path / "cgroup").read_bytes())):
                result[container.decode()].append(path)
    return result


def _deleted_files(processes: Sequence[Path], devices: set[int]) -> Usage:
    """Usage of deleted files on these devices that processes hold open or mapped."""
    sizes = {}
    for process in processes:
        for path in (*_opened(process), *_mapped(process)):
            with contextlib.suppress(OSError):
                status = path.stat()
                if status.st_nlink == 0 and status.st_dev in devices and stat.S_ISREG(status.st_mode):
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
    return Usage(sum(sizes.values()), len(sizes))


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
    """Command line of a ``find`` that can read directories even if their owner removed the permission."""
    commands = [["find"]] if os.geteuid() == 0 else [["unshare", "--map-root-user", "find"], ["find"]]
    for command in commands:
        with contextlib.suppress(OSError):
            result = subprocess.run(
                [*command, "/", "-maxdepth", "0", "-printf", "%y"], capture_output=True, check=False
            )
            if result.stdout == b"d":
                return command
    raise UnavailableError("GNU find was not found on PATH", remedy="Run: apt-get install findutils")


def _device(path: Path) -> int:
    try:
        return path.stat().st_dev
    except OSError:
        return -1


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62  # removed: it uses no space
