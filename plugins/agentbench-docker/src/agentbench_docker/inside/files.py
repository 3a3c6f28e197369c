"""Reads and writes files in the sandbox with the permissions of commands."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from agentbench_docker.inside.frames import answer


def read_file(request: dict[str, Any]) -> None:
    """Answer with up to ``limit`` bytes of a regular file."""
    try:
        # Non-blocking: opening a pipe without a writer would block forever.
        descriptor = os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise IsADirectoryError(errno.EISDIR, "is not a regular file")
            data = bytearray()
            while len(data) < request["limit"]:
                part = os.read(descriptor, min(request["limit"] - len(data), 1 << 20))
                if not part:
                    break
                data += part
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        answer_error(error)
    else:
        answer({}, bytes(data))


def write_file(request: dict[str, Any], data: bytes) -> None:
    """Write a file atomically. An existing file keeps its mode; its other hard links keep the old content."""
    path = Path(request["path"])
    draft = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        draft.replace(path)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        answer_error(error)
    else:
        answer({})


def answer_error(error: Exception) -> None:
    """Answer with an error."""
    answer({"errno": getattr(error, "errno", None) or errno.EINVAL, "message": getattr(error, "strerror", str(error))})
