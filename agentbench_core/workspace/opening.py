"""Open files under a directory without following links, even if the tree changes at the same time.

On Linux, the kernel does this in one call, ``openat2`` with ``RESOLVE_BENEATH``; elsewhere the path is walked part by
part with ``O_NOFOLLOW``. Checking the path before a plain ``open`` would race with renames.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys

from agentbench_core.errors import PathEscapeError, ToolError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags that open a directory for listing."""
PARENT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags that open a directory only as a starting point for other paths."""
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
"""Flags that open a file for reading, without waiting if it is a FIFO."""

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_AT_FDCWD = -100
_LONGEST = 4000  # maximum bytes of a path in one call; PATH_MAX is 4096 with the NUL
_TRIES = 256  # EAGAIN means a concurrent rename


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _openat2(directory: int, path: bytes, flags: int) -> int:
    how = _How(flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    for _ in range(_TRIES):
        fd = _libc().syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(directory),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return int(fd)
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code), os.fsdecode(path))
    raise OSError(errno.ELOOP, "changed while being opened", os.fsdecode(path))


@functools.cache
def has_openat2() -> bool:
    """Whether this kernel has ``openat2`` and nothing (an old seccomp profile) forbids it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(_openat2(_AT_FDCWD, b".", PARENT))
    except OSError:
        return False
    return True


def _open_part(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except NotADirectoryError:
        # The kernel checks O_DIRECTORY before O_NOFOLLOW: report a link as such.
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _open_by_parts(directory: int, path: str, flags: int) -> int:
    *parents, last = path.split("/")
    fd = os.dup(directory)
    try:
        for name in parents:
            above, fd = fd, _open_part(fd, name, PARENT)
            os.close(above)
        return _open_part(fd, last, flags)
    finally:
        os.close(fd)


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open ``path`` (relative, without ``..``; empty: the directory itself) under an open directory.

    Raises OSError: ELOOP for a link in the path, EXDEV for a path that leads outside.
    """
    if not path:
        return os.open(".", flags, dir_fd=directory)
    encoded = os.fsencode(path)
    if not has_openat2() or len(encoded) > _LONGEST:
        return _open_by_parts(directory, path, flags)
    if flags & os.O_DIRECTORY:
        flags &= ~os.O_NOFOLLOW  # with both, a link is reported as "not a directory"
    return _openat2(directory, encoded, flags)


def refusal(path: str, error: OSError) -> ToolError | OSError:
    """The ToolError for an OSError that an untrusted path can cause; any other OSError is returned unchanged."""
    match error.errno:
        case errno.ENOENT:
            return ToolError("not_found", f"{path!r} does not exist")
        case errno.ENOTDIR:
            return ToolError("not_found", f"{path!r} does not exist: a part of it is a file, not a directory")
        case errno.ENAMETOOLONG:
            return ToolError("not_found", f"the path {path!r} is too long")
        case errno.ELOOP | errno.EXDEV:
            return PathEscapeError(f"{path!r} contains a symbolic link; links are not followed")
        case errno.EISDIR | errno.ENXIO | errno.ENODEV | errno.EOPNOTSUPP:
            return ToolError("not_a_file", f"{path!r} is not a regular file")
        case errno.EACCES | errno.EPERM:
            return ToolError("no_access", f"{path!r} cannot be opened: its mode forbids it")
    return error
