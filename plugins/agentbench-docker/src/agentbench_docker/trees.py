"""Archives of prepared trees: files, directories and symbolic links with permissions and times, in tar format."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, cast

from agentbench_core import InputError

_PERMISSIONS = 0o777  # never setuid, setgid or sticky


class _Hashed:
    """A file that is being written, and the SHA-256 of the written bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def pack(tree: Path, archive: Path) -> str:
    """Write an archive of a tree, and return its SHA-256 in hexadecimal digits. Owners are not kept.

    Raises OSError if something cannot be read or written.
    """
    with archive.open("xb") as file:
        hashed = _Hashed(file)
        # A stream: tarfile only writes, and never seeks.
        with tarfile.open(
            fileobj=cast("IO[bytes]", hashed), mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape"
        ) as tar:
            _add(tar, tree, tree)
            for directory, names, files in os.walk(tree, onerror=_raise):
                names.sort()
                for name in sorted([*names, *files]):
                    _add(tar, Path(directory, name), tree)
    return hashed.digest.hexdigest()


def _raise(error: OSError) -> None:
    raise error


def _add(tar: tarfile.TarFile, path: Path, tree: Path) -> None:
    status = path.lstat()
    info = tarfile.TarInfo(path.relative_to(tree).as_posix())
    info.mode, info.mtime = stat.S_IMODE(status.st_mode) & _PERMISSIONS, status.st_mtime
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)  # noqa: PTH115 - a Path would drop "./"
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        info.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(info, file)


def sha256(file: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def unpack(archive: Path, tree: Path) -> None:
    """Create a tree from an archive of :func:`pack`.

    Raises InputError for anything that :func:`pack` does not write, such as paths that lead out of the tree.
    """
    tree.mkdir(mode=0o700)
    made: dict[PurePosixPath, tarfile.TarInfo] = {}
    try:
        with tarfile.open(archive, mode="r:", errors="surrogateescape") as tar:
            for member in tar:
                _extract(tar, member, tree, made)
        for name, member in reversed(made.items()):  # last, since a read-only directory could not be filled
            (tree / name).chmod(member.mode & _PERMISSIONS)
            os.utime(tree / name, (member.mtime, member.mtime))
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{archive} cannot be unpacked: {error}") from None


def _extract(
    tar: tarfile.TarFile, member: tarfile.TarInfo, tree: Path, made: dict[PurePosixPath, tarfile.TarInfo]
) -> None:
    """Extract one member. Its parent must be a directory that an earlier member has made, so that no link leads out."""
    name = PurePosixPath(member.name)
    if not made:  # the tree itself comes first
        if name.parts or not member.isdir():
            raise ValueError("the first member is not the root directory of the tree")
        made[name] = member
        return
    if name.is_absolute() or ".." in name.parts or not name.parts or name.parent not in made:
        raise ValueError(f"{member.name[:200]!r} is not a valid path in a tree")
    path = tree / name
    if member.isdir():
        path.mkdir(mode=0o700)
        made[name] = member
        return
    if member.issym():
        path.symlink_to(member.linkname)
    elif member.isreg() and not member.issparse() and (source := tar.extractfile(member)) is not None:
        with source, path.open("xb") as file:
            shutil.copyfileobj(source, file)
        path.chmod(member.mode & _PERMISSIONS)
    else:
        raise ValueError(f"{member.name[:200]!r} is neither a file nor a directory nor a symbolic link")
    os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
