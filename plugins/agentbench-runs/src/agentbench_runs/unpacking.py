"""Reads a file written by ``runs pack``, which may be malicious, into a directory that nothing else uses.

Only directories and regular files are accepted, each after its directory, so there are never links to follow. The
headers are read one by one with a limit on each length: :mod:`tarfile` would read a header of any size into memory.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO

import attrs

from agentbench_core import InputError

_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 18  # bytes copied at once
_LONGEST_NAME = 4096  # bytes
_LONGEST_PART = 255  # bytes
DEEPEST = 300
"""The maximum number of parts of a path; the files of an attempt's workspace have up to 256."""
_RATIO = 200
"""The maximum ratio of unpacked to packed size: about 10 for runs of real agents, about 1000 for malicious archives."""
_FREE = 64 << 20  # bytes of content for which the ratio is not checked
_PADDING = 1 << 20  # bytes after the end; tar pads files to 10 kB


@attrs.frozen(kw_only=True)
class Limits:
    """Limits on the unpacked content."""

    bytes: int = 20 * 10**9  #: size of all files together
    entries: int = 1_000_000  #: number of files and directories


def unpack_into(path: Path, directory: Path, limits: Limits) -> list[str]:
    """Unpack a file into an empty directory, and return the names of the runs in it.

    Raises InputError if the file is damaged, or contains anything that ``runs pack`` does not write: paths that lead
    out of the directory, links, devices, duplicates, or more than ``limits``. The caller deletes what was written.
    """
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file, mode="rb") as content:
            return _Unpacking(directory, limits, _Bounded(content, file, limits.bytes)).run()
    except InputError as error:
        raise InputError(f"{path}: {error.message}", remedy=error.remedy) from None
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.HeaderError) as error:
        raise InputError(f"{path} is damaged or was not written by `agentbench runs pack`: {error}") from None
    except OSError as error:
        raise InputError(f"cannot unpack {path}: {error.strerror or error}") from None


def check_run_name(name: str) -> None:
    """Raise InputError if the directory of a run must not have this name."""
    if name.startswith(".") or not name.isprintable():
        raise InputError(f"{name!a} cannot be the name of a run directory: it is hidden or contains control characters")


class _Bounded:
    """The unpacked content, limited in size and in its ratio to the size of the packed file."""

    def __init__(self, content: IO[bytes] | gzip.GzipFile, packed: io.BufferedReader, most: int) -> None:
        self._content = content
        self._packed = packed
        self._most = most
        self._total = 0

    def read(self, size: int) -> bytes:
        """The next bytes, exactly ``size``. Raises EOFError if there are fewer."""
        pieces = []
        missing = size
        while missing:
            piece = self._content.read(min(missing, _PIECE))
            if not piece:
                raise EOFError("it is incomplete")
            self._count(len(piece))
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def rest_is_empty(self) -> bool:
        """Whether only a little padding follows. Also checks the checksum at the end of the file."""
        total = 0
        while piece := self._content.read(_PIECE):
            total += len(piece)
            if piece.strip(b"\0") or total > _PADDING:
                return False
        return True

    def _count(self, size: int) -> None:
        self._total += size
        if self._total > self._most + (_BLOCK << 20):  # up to a million headers in addition to the files
            raise _too_large(self._most)
        if self._total > _FREE + _RATIO * self._packed.tell():
            raise InputError(f"its content is more than {_RATIO} times larger than the file, so it is not a run")


class _Unpacking:
    def __init__(self, directory: Path, limits: Limits, content: _Bounded) -> None:
        self._directory = directory
        self._limits = limits
        self._content = content
        self._names: list[str] = []
        self._written = 0

    def run(self) -> list[str]:
        """Unpack everything."""
        long_name = b""
        for _ in range(self._limits.entries):
            block = self._content.read(_BLOCK)
            if not block.strip(b"\0"):
                break
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if info.size < 0:
                raise InputError(f"{info.name!a} has a negative size")
            if info.type == tarfile.GNUTYPE_LONGNAME and not long_name:  # counts as an entry
                if info.size > _LONGEST_NAME:
                    raise InputError("it contains a name that is too long")
                long_name = self._padded(info.size).rstrip(b"\0")
                continue
            name = os.fsdecode(long_name) if long_name else info.name
            long_name = b""
            self._entry(name.removesuffix("/") if info.isdir() else name, info)
        else:
            raise InputError(f"it contains more than {self._limits.entries} files")
        if not self._content.rest_is_empty():
            raise InputError("it contains data after its end")
        if not self._names:
            raise InputError("it contains no run")
        return self._names

    def _entry(self, name: str, info: tarfile.TarInfo) -> None:
        parts = _checked_parts(name)
        path = self._directory.joinpath(*parts)
        shown = ascii(name)
        if not (info.isdir() or info.type in (tarfile.REGTYPE, tarfile.AREGTYPE)):
            raise InputError(
                f"{shown} is neither a file nor a directory (type {info.type!r})",
                remedy="Runs contain no links or devices. Only files written by `runs pack` are accepted.",
            )
        if info.isdir() and info.size:
            raise InputError(f"{shown} is a directory with content")
        try:
            if info.isdir():
                path.mkdir(mode=0o755)
                if len(parts) == 1:
                    check_run_name(name)
                    self._names.append(name)
                return
            if len(parts) == 1:
                raise InputError(f"{shown} is not in the directory of a run")
            self._write(path, info)
        except FileExistsError:
            raise InputError(f"it contains {shown} twice") from None
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{shown} comes before its directory") from None

    def _write(self, path: Path, info: tarfile.TarInfo) -> None:
        self._written += info.size
        if self._written > self._limits.bytes:
            raise _too_large(self._limits.bytes)
        mode = 0o755 if info.mode & 0o100 else 0o644
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            missing = info.size
            while missing:
                piece = self._content.read(min(missing, _PIECE))
                file.write(piece)
                missing -= len(piece)
        self._content.read(-info.size % _BLOCK)

    def _padded(self, size: int) -> bytes:
        data = self._content.read(size)
        self._content.read(-size % _BLOCK)
        return data


def _checked_parts(name: str) -> list[str]:
    parts = name.split("/")
    if len(os.fsencode(name)) > _LONGEST_NAME or len(parts) > DEEPEST:
        raise InputError("it contains a name that is too long")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or len(os.fsencode(part)) > _LONGEST_PART:
            raise InputError(f"{ascii(name)[:200]} is not a path inside a run")
    return parts


def _too_large(most: int) -> InputError:
    return InputError(
        f"it contains more than {most} bytes", remedy="If you trust its source, increase the limit: --max-size SIZE"
    )
