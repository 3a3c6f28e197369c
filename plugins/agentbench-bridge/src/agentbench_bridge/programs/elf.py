"""The C library that an executable file needs."""

from __future__ import annotations

import struct
from pathlib import Path

_INTERPRETER = 3  # type of the program header that names the dynamic loader
_MOST_HEADERS = 128
_LONGEST = 4096
_LOADERS = {b"ld-musl": "musl", b"ld-linux": "glibc"}


def libc_of(path: Path) -> str:
    """``static``, ``glibc``, ``musl``, or an empty string if it is unknown.

    It is unknown for scripts, for damaged files, and for ELF files that are not 64-bit little-endian.
    """
    try:
        return _libc_of(path)
    except (OSError, ValueError, OverflowError):  # an offset that no file can have
        return ""


def _libc_of(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            return ""
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for number in range(min(count, _MOST_HEADERS)):
            file.seek(offset + number * size)
            header = file.read(56)
            if len(header) < 56:
                return ""
            (kind,) = struct.unpack_from("<I", header, 0)
            if kind == _INTERPRETER:
                start, length = struct.unpack_from("<Q", header, 8)[0], struct.unpack_from("<Q", header, 32)[0]
                file.seek(start)
                loader = file.read(min(length, _LONGEST))
                return next((libc for mark, libc in _LOADERS.items() if mark in loader), "")
    return "static"
