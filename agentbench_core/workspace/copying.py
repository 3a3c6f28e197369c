"""Copy a whole tree and remove a whole tree, however deep, odd or unreadable it is."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentbench_core.workspace import opening
from agentbench_core.workspace.listing import TreeEntry, list_directory

_FICLONE = 0x40049409
_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # never setuid, setgid or sticky


def fork(source: Path, target: Path) -> None:
    """Copy a tree to a new place, with its ``.git``; the two share nothing that a write to one could change.

    Links stay links, modes stay without setuid and setgid, times stay, owners stay when we are root. Blocks are
    shared copy-on-write where the file system can, holes stay holes, hard links become files of their own,
    FIFOs, devices and sockets are left out.

    Args:
        source: nobody else may be writing to it.
        target: must not exist; its parent must.

    Raises:
        OSError: the target exists, or something cannot be read or written; then the target is removed again.
    """
    target.mkdir(mode=0o700)
    try:
        _Copy(source, target).run()
    except BaseException:
        remove_tree(target)
        raise


class _Copy:
    """One copy under way: two open roots, and whether the file system can share blocks."""

    def __init__(self, source: Path, target: Path) -> None:
        self._from = os.open(source, opening.DIRECTORY | os.O_NOFOLLOW)
        try:
            self._to = os.open(target, opening.DIRECTORY | os.O_NOFOLLOW)
        except BaseException:
            os.close(self._from)
            raise
        self._reflinks = sys.platform == "linux"
        self._as_root = os.geteuid() == 0

    def run(self) -> None:
        try:
            self._copy()
        finally:
            os.close(self._from)
            os.close(self._to)

    def _copy(self) -> None:
        # Directories get their modes once they are full: a read-only one could not be filled.
        stack: list[tuple[str, os.stat_result, Iterator[TreeEntry]]] = [self._enter("", os.fstat(self._from))]
        while stack:
            path, status, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                self._finish_directory(path, status)
            elif entry.kind == "directory":
                self._make(entry)
                stack.append(self._enter(entry.path, entry.status))
            else:
                self._make(entry)

    def _enter(self, path: str, status: os.stat_result) -> tuple[str, os.stat_result, Iterator[TreeEntry]]:
        return path, status, iter(list_directory(self._from, path, git=True))

    def _make(self, entry: TreeEntry) -> None:
        above, _, name = entry.path.rpartition("/")
        parent = opening.open_beneath(self._to, above, opening.PARENT) if above else self._to
        try:
            if entry.kind == "directory":
                os.mkdir(name, 0o700, dir_fd=parent)
            elif entry.kind == "link":
                os.symlink(entry.target, name, dir_fd=parent)
                if self._as_root:
                    status = entry.status
                    os.chown(name, status.st_uid, status.st_gid, dir_fd=parent, follow_symlinks=False)
            elif entry.kind == "file":
                self._copy_file(entry, parent, name)
        finally:
            if above:
                os.close(parent)

    def _copy_file(self, entry: TreeEntry, parent: int, name: str) -> None:
        source = opening.open_beneath(self._from, entry.path, opening.READ)
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "changes while it is copied", entry.path)
            target = os.open(name, _NEW, 0o600, dir_fd=parent)
            try:
                if not (self._reflinks and status.st_size and self._share(source, target)):
                    _copy_bytes(source, target, status)
                self._finish(target, status)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _share(self, source: int, target: int) -> bool:
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError:
            self._reflinks = False
            return False
        return True

    def _finish_directory(self, path: str, status: os.stat_result) -> None:
        fd = opening.open_beneath(self._to, path, opening.DIRECTORY)
        try:
            self._finish(fd, status)
        finally:
            os.close(fd)

    def _finish(self, fd: int, status: os.stat_result) -> None:
        if self._as_root:
            os.fchown(fd, status.st_uid, status.st_gid)
        os.fchmod(fd, status.st_mode & _PERMISSIONS)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_bytes(source: int, target: int, status: os.stat_result) -> None:
    size = status.st_size
    if status.st_blocks * 512 >= size or not hasattr(os, "SEEK_DATA"):
        _copy_range(source, target, 0, size)
        return
    os.ftruncate(target, size)  # the holes of a sparse file
    start = 0
    while start < size:
        try:
            start = os.lseek(source, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            raise
        end = os.lseek(source, start, os.SEEK_HOLE)
        _copy_range(source, target, start, end)
        start = end


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    while start < end and (chunk := os.pread(source, min(_CHUNK, end - start), start)):
        view = memoryview(chunk)
        while view:
            written = os.pwrite(target, view, start)
            start += written
            view = view[written:]


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, or a file or link; nothing is done when it does not exist.

    Never follows a link, needs neither recursion nor long paths, and opens up directories that their modes close.

    Raises:
        OSError: something belongs to another user or is mounted; the rest may be gone.
    """
    parent = os.open(path.parent, opening.DIRECTORY)
    try:
        root = _open_for_removal(parent, path.name)
        if root is not None:
            try:
                _empty(root)
            finally:
                os.close(root)
            os.rmdir(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def _open_for_removal(parent: int, name: str) -> int | None:
    """Open a directory whose owner may then do everything in it; unlink what is none, and return None."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=parent)
            return None
        if mode & 0o700 != 0o700:
            _open_up(parent, name)
        return os.open(name, opening.DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return None


def _open_up(parent: int, name: str) -> None:
    with suppress(PermissionError):  # not ours; what follows says so, or works all the same
        if sys.platform != "linux":
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
            return
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):  # chmod follows links, a descriptor of a directory is none
                Path(f"/proc/self/fd/{fd}").chmod(0o700)
        finally:
            os.close(fd)


def _empty(root: int) -> None:
    """Remove what is in an open directory. Directories deeper down are moved up first, so none is ever deep."""
    queue = os.listdir(root)
    while queue:
        name = queue.pop()
        fd = _open_for_removal(root, name)
        if fd is None:
            continue
        try:
            for below in os.listdir(fd):  # noqa: PTH208 - a descriptor has no Path
                inner = _open_for_removal(fd, below)
                if inner is None:
                    continue
                os.close(inner)
                moved = f".agentbench-{secrets.token_hex(8)}"
                os.rename(below, moved, src_dir_fd=fd, dst_dir_fd=root)
                queue.append(moved)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=root)
