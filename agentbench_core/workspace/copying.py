"""Copy and remove whole trees, however deep or unusual; removal also makes unreadable directories accessible."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from agentbench_core.workspace import opening
from agentbench_core.workspace.listing import TreeEntry, list_directory

_FICLONE = 0x40049409
_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # never setuid, setgid or sticky


def fork(source: Path, target: Path) -> None:
    """Copy a tree, with its ``.git``, to a new path. Writing to one tree never changes the other.

    Keeps links, permissions (not setuid, setgid or sticky), times, and owners if running as root. Blocks are shared
    copy-on-write if the file system supports it, holes stay holes, hard links become separate files, and FIFOs, devices
    and sockets are skipped.

    Args:
        source: must not be written to at the same time.
        target: must not exist; its parent must.

    Raises:
        OSError: the target exists (it is kept), or something cannot be read or written (the target is removed).
    """
    target.mkdir(mode=0o700)
    try:
        _Copy(source, target).run()
    except BaseException:
        remove_tree(target)
        raise


@attrs.frozen
class _Level:
    """A directory being copied: its source and target, and the entries that are still to be copied."""

    source: os.stat_result
    target: os.stat_result
    entries: Iterator[TreeEntry]


class _Copy:
    """One copy in progress: its two current directories, and whether the file system can share blocks.

    It descends by name, ascends by ``..`` and checks that it arrives where it came from. Resolving whole paths
    would take time quadratic in the depth.
    """

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
        stack = [self._level()]
        while stack:
            entry = next(stack[-1].entries, None)
            if entry is None:
                level = stack.pop()
                self._leave(level, stack[-1] if stack else None)
            elif entry.kind == "directory":
                os.mkdir(entry.path, 0o700, dir_fd=self._to)
                self._go(entry.path)
                stack.append(self._level())
            else:
                self._make(entry)

    def _level(self) -> _Level:
        entries = list_directory(self._from, "", git=True)
        return _Level(os.fstat(self._from), os.fstat(self._to), iter(entries))

    def _leave(self, level: _Level, above: _Level | None) -> None:
        # A directory gets its mode after its content, because a read-only directory could not be filled.
        full = os.dup(self._to)
        try:
            if above is not None:
                self._go("..")
                if not (_same(self._from, above.source) and _same(self._to, above.target)):
                    raise OSError(errno.EINVAL, "changed while being copied")
            self._finish(full, level.source)
        finally:
            os.close(full)

    def _go(self, name: str) -> None:
        below = os.open(name, opening.DIRECTORY | os.O_NOFOLLOW, dir_fd=self._from)
        self._from, previous = below, self._from
        os.close(previous)
        below = os.open(name, opening.DIRECTORY | os.O_NOFOLLOW, dir_fd=self._to)
        self._to, previous = below, self._to
        os.close(previous)

    def _make(self, entry: TreeEntry) -> None:
        if entry.kind == "link":
            os.symlink(entry.target, entry.path, dir_fd=self._to)
            if self._as_root:
                status = entry.status
                os.chown(entry.path, status.st_uid, status.st_gid, dir_fd=self._to, follow_symlinks=False)
        elif entry.kind == "file":
            self._copy_file(entry.path)

    def _copy_file(self, name: str) -> None:
        source = os.open(name, opening.READ, dir_fd=self._from)
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "changed while being copied", name)
            target = os.open(name, _NEW, 0o600, dir_fd=self._to)
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

    def _finish(self, fd: int, status: os.stat_result) -> None:
        if self._as_root:
            os.fchown(fd, status.st_uid, status.st_gid)
        os.fchmod(fd, status.st_mode & _PERMISSIONS)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))


def _same(directory: int, known: os.stat_result) -> bool:
    return os.path.samestat(os.fstat(directory), known)


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
            if error.errno == errno.ENXIO:  # only a hole is left
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
    """Remove a directory with its contents, or a file or link. Does nothing if it does not exist.

    Never follows a link, needs neither recursion nor long paths, and makes directories accessible.

    Raises:
        OSError: something belongs to another user or is a mount point; everything else was removed.
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
    """Open a directory, with all permissions for its owner. Unlink anything else. Returns None without a directory."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=parent)
            return None
        if mode & 0o700 != 0o700:
            _make_accessible(parent, name)
        return os.open(name, opening.DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return None


def _make_accessible(parent: int, name: str) -> None:
    with suppress(PermissionError):  # owned by another user; later calls may fail or succeed
        if sys.platform != "linux":
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
            return
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):  # chmod follows links, but the descriptor of a directory is not one
                Path(f"/proc/self/fd/{fd}").chmod(0o700)
        finally:
            os.close(fd)


def _empty(root: int) -> None:
    """Remove the contents of an open directory. Deeper directories are moved up first, so no path is ever deep.

    Continues after errors; the first one is raised at the end.
    """
    errors: list[OSError] = []
    queue = os.listdir(root)
    while queue:
        name = queue.pop()
        with _collected(errors):
            fd = _open_for_removal(root, name)
            if fd is None:
                continue
            try:
                for below in os.listdir(fd):  # noqa: PTH208 - a descriptor has no Path
                    with _collected(errors):
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
    if errors:
        raise errors[0]


@contextmanager
def _collected(errors: list[OSError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        errors.append(error)
