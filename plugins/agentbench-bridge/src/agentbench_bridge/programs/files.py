"""The files of a program: the allowed contents of its directory, and their digest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench_core import InputError

_MOST_FILES = 200_000
_MOST_BYTES = 8 << 30

_digests: dict[Path, tuple[Sequence[object], str]] = {}
"""Digests that were computed in this process, with the sizes and times of the files at that time."""


def files_of(directory: Path) -> Mapping[str, os.stat_result]:
    """Everything in a directory by relative path, sorted by its parts. Links are listed, and not followed.

    Raises InputError if something is not a file, directory or link, if the directory is too large, or if a directory
    cannot be read.
    """
    found: dict[str, os.stat_result] = {}
    size = 0
    pending = [""]
    while pending:
        parent = pending.pop()
        try:
            with os.scandir(directory / parent) as entries:
                listed = [(f"{parent}{entry.name}", entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError as error:
            raise InputError(f"cannot read the program in {directory}: {error}") from None
        for name, status in listed:
            if stat.S_ISDIR(status.st_mode):
                pending.append(f"{name}/")
            elif stat.S_ISREG(status.st_mode):
                size += status.st_size
            elif not stat.S_ISLNK(status.st_mode):
                raise InputError(f"{directory / name} is not a file, directory or link")
            found[name] = status
        if len(found) > _MOST_FILES or size > _MOST_BYTES:
            raise InputError(
                f"{directory} is too large for a program: it contains more than {_MOST_FILES} files "
                f"or {_MOST_BYTES >> 30} GiB",
                remedy="Use a directory that contains only the program.",
            )
    return dict(sorted(found.items(), key=lambda item: item[0].split("/")))


def digest(directory: Path) -> str:
    """SHA-256 over the paths, kinds, executable bits and contents of everything in a directory. Raises InputError.

    Directories with content are implied by their content.

    Computed again only if the size or times of a file have changed since the last call, because hashing takes about a
    second for 300 MB.
    """
    files = files_of(directory)
    state = [
        (name, one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for name, one in files.items()
    ]
    known = _digests.get(directory)
    if known is None or known[0] != state:
        _digests[directory] = known = state, _digest(directory, files)
    return known[1]


def _digest(directory: Path, files: Mapping[str, os.stat_result]) -> str:
    total = hashlib.sha256()
    with_content = {name.rpartition("/")[0] for name in files}
    try:
        for name, status in files.items():
            if name in with_content:
                continue
            encoded = os.fsencode(name)
            total.update(b"%d %s %s\n" % (len(encoded), encoded, _content(directory / name, status.st_mode)))
    except OSError as error:
        raise InputError(f"cannot read the program in {directory}: {error}") from None
    return f"sha256:{total.hexdigest()}"


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISDIR(mode):
        return b"directory"
    if stat.S_ISLNK(mode):
        target = os.fsencode(path.readlink())
        return b"link %d %s" % (len(target), target)
    with path.open("rb") as file:
        return f"file {int(bool(mode & 0o100))} {hashlib.file_digest(file, 'sha256').hexdigest()}".encode()
