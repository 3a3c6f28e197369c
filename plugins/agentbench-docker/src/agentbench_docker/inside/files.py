"""Files of the sandbox, read and written by process 1, with the rights of its commands."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from agentbench_docker.inside.frames import answer


def read_file(request: dict[str, Any]) -> None:
    """Up to ``limit`` bytes of a regular file."""
    try:
        # Non-blocking: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise IsADirectoryError(errno.EISDIR, "is no regular file")
            data = bytearray()
            while len(data) < request["limit"]:
                part = os.read(descriptor, min(request["limit"] - len(data), 1 << 20))
                if not part:
                    break
                data += part
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        refuse(error)
    else:
        answer({}, bytes(data))


def write_file(request: dict[str, Any], data: bytes) -> None:
    """Write a file as a whole; an existing one keeps its mode, and other names of it keep their content."""
    place = Path(request["path"])
    draft = place.with_name(f".{place.name[:100]}.{os.urandom(4).hex()}")
    try:
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            draft.chmod(stat.S_IMODE(place.stat().st_mode))
        draft.replace(place)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        refuse(error)
    else:
        answer({})


def refuse(error: Exception) -> None:
    """Say why not."""
    answer({"errno": getattr(error, "errno", None) or errno.EINVAL, "message": getattr(error, "strerror", str(error))})
