"""Unpacks archives from a registry, which are not trusted."""

from __future__ import annotations

import tarfile
from pathlib import Path

from agentbench_core import UnavailableError

_MOST_FILES = 100_000
_MOST_BYTES = 4 << 30


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar archive. Its files become readable by everyone, without setuid and setgid bits.

    Raises UnavailableError for paths and links that leave the directory, devices, and archives that are too large.
    """
    safe = getattr(tarfile, "data_filter", None)
    if safe is None:
        raise UnavailableError(
            "this Python's tarfile module cannot unpack untrusted archives", remedy="Use Python 3.11.4 or newer."
        )
    size = 0
    try:
        with tarfile.open(archive) as tar:
            for number, member in enumerate(tar, 1):
                size += member.size
                if number > _MOST_FILES or size > _MOST_BYTES:
                    raise UnavailableError(
                        f"{archive.name} is too large: the limits are {_MOST_FILES} files and {_MOST_BYTES >> 30} GiB"
                    )
                tar.extract(member, into, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UnavailableError(f"cannot unpack {archive.name}: {error}") from None
    for path in (into, *into.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
