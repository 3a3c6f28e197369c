"""Unpacks archives from a registry, which are not trusted."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, cast

from agentbench_core import UnavailableError

_MOST_FILES = 20_000
_MOST_BYTES = 4 << 30
_DEEPEST = 64  # parts of a path
_MOST_AT_ONCE = 1 << 20
"""Maximum number of bytes of one read. ``tarfile`` reads extended headers at once, however long they are."""


def unpack(archive: Path, into: Path) -> None:
    """Unpack a compressed tar archive that contains only files and directories, like npm packages.

    The files become readable by everyone. Raises UnavailableError for anything else: links, devices, setuid and
    setgid files, absolute paths, paths with ``..``, a file that occurs twice, and archives that are too large or
    damaged.
    """
    try:
        with gzip.open(archive) as plain, tarfile.open(fileobj=cast("IO[bytes]", _Bounded(plain)), mode="r:") as tar:
            for number, member in enumerate(tar, 1):
                if number > _MOST_FILES:
                    raise _UnsafeError(f"it contains more than {_MOST_FILES} files")
                _extract(tar, member, into)
            plain.seek(tar.offset)
            if plain.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile treats a broken header as the end
                raise _UnsafeError(f"it has a broken header at byte {tar.offset}")
    except _FAILURES as error:
        raise UnavailableError(f"cannot unpack {archive.name}: {error}") from None


class _UnsafeError(Exception):
    """The archive contains something that is refused."""


_FAILURES = (
    *(_UnsafeError, tarfile.TarError, zlib.error, EOFError, OSError, ValueError, ArithmeticError),
    RecursionError,  # too many extended headers of one file
)


class _Bounded:
    """A decompressed archive whose total size, and size of one read, are limited."""

    def __init__(self, plain: gzip.GzipFile) -> None:
        self._plain = plain
        self.tell = plain.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise _UnsafeError(f"it contains a header of {size} bytes")
        data = self._plain.read(size)
        self._check(self._plain.tell())
        return data

    def seek(self, offset: int) -> int:
        self._check(offset)
        return self._plain.seek(offset)

    @staticmethod
    def _check(position: int) -> None:
        if not 0 <= position <= _MOST_BYTES:
            raise _UnsafeError(f"it is larger than {_MOST_BYTES >> 30} GiB")


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    name = PurePosixPath(member.name)
    shown = repr(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise _UnsafeError(f"the path {shown} points outside the archive")
    if not member.name.isprintable() or len(name.parts) > _DEEPEST:  # also surrogates, which are not UTF-8
        raise _UnsafeError(f"the path {shown} is too deep, not UTF-8, or contains control characters")
    path = into / name
    if member.isdir():
        _make_directory(path, into)
        return
    if not member.isreg() or member.issparse() or member.size < 0:
        raise _UnsafeError(f"{shown} is neither a file nor a directory")
    if member.mode & 0o6000:
        raise _UnsafeError(f"{shown} is a setuid or setgid file")
    source = tar.extractfile(member)
    assert source is not None, "the member must be a regular file"
    _make_directory(path.parent, into)
    with source, path.open("xb") as file:  # as there are no links, this stays in the directory
        shutil.copyfileobj(source, file)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _make_directory(path: Path, into: Path) -> None:
    """Create a directory and its parents, with permissions that do not depend on the user's umask."""
    if path.is_dir():
        return
    for directory in reversed((path, *path.parents)):
        if directory.is_relative_to(into) and not directory.is_dir():
            directory.mkdir()
            directory.chmod(0o755)
