"""List a hostile tree, directory by directory, with one open file descriptor at a time."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Literal

import attrs

from agentbench_core.errors import ToolError
from agentbench_core.workspace import opening
from agentbench_core.workspace.paths import is_repository_name

DEPTH_MAX = 256
"""Maximum depth of directories that a walk enters."""
ENTRIES_MAX = 500_000
"""Maximum number of entries of a tree."""
NAMES_MAX = 256 << 20
"""Maximum number of characters in all paths, since deep trees with long names fill the memory with few entries."""
TREE_SIZE_MAX = 16 << 30
"""Maximum total bytes of all files, since sparse files are cheap to create but take days to read."""

_HOST_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)

EntryKind = Literal["file", "link", "special", "repository", "directory", "deep", "unreadable"]


@attrs.frozen
class TreeEntry:
    """One entry of a tree.

    ``kind`` is ``repository`` for anything named ``.git``, ``deep`` for a directory deeper than 256 levels and
    ``unreadable`` for a directory that cannot be listed; these are not entered. A walk yields no ``directory``.
    """

    path: str  #: relative; bytes that are not UTF-8 are surrogate escapes
    kind: EntryKind  #: its kind
    status: os.stat_result  #: its status; links are not followed
    target: str = ""
    """The target of a link."""

    @property
    def mode(self) -> int:
        """``st_mode``: type and permissions."""
        return self.status.st_mode

    @property
    def size(self) -> int:
        """``st_size``: number of bytes."""
        return self.status.st_size

    @property
    def nlink(self) -> int:
        """``st_nlink``: number of hard links."""
        return self.status.st_nlink


def _kind(name: str, mode: int, *, git: bool) -> EntryKind:
    if not git and is_repository_name(name):
        return "repository"
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "special"


def _sort_key(entry: TreeEntry) -> bytes:
    return os.fsencode(entry.path + "/" if entry.kind == "directory" else entry.path)


def list_directory(root: int, path: str, *, git: bool = False) -> list[TreeEntry]:
    """The entries of the directory ``path`` under an open ``root``, in the order of a walk.

    Args:
        root: an open directory.
        path: relative to ``root``; empty for ``root`` itself.
        git: treat ``.git`` as an ordinary name.

    Raises:
        OSError: the directory cannot be opened or listed.
        ToolError: it has too many entries (``too_many_files``).
    """
    prefix = f"{path}/" if path else ""
    results: list[TreeEntry] = []
    remaining = NAMES_MAX
    directory = opening.open_beneath(root, path, opening.DIRECTORY)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                    kind = _kind(entry.name, status.st_mode, git=git)
                    target = os.readlink(entry.name, dir_fd=directory) if kind == "link" else ""
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.EINVAL):
                        continue  # removed, or no longer a link
                    raise
                results.append(TreeEntry(prefix + entry.name, kind, status, target))
                remaining -= len(results[-1].path)
                if len(results) > ENTRIES_MAX or remaining < 0:
                    raise too_many()
    finally:
        os.close(directory)
    return sorted(results, key=_sort_key)


def too_many() -> ToolError:
    """The error for a tree with more than ``ENTRIES_MAX`` entries, or whose names are too long."""
    names = f"{NAMES_MAX >> 20} MiB of names"
    return ToolError("too_many_files", f"the tree has more than {ENTRIES_MAX} entries or {names}")


def walk(root: int, start: str = "", *, depth_max: int = DEPTH_MAX) -> Iterator[TreeEntry]:
    """Everything under ``start`` except directories and the contents of ``.git``, sorted by the bytes of the paths.

    Raises:
        OSError: ``start`` cannot be listed.
        ToolError: there are too many entries (``too_many_files``).
    """
    count, remaining = 0, NAMES_MAX
    stack = [iter(list_directory(root, start))]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        count += 1
        remaining -= len(entry.path)
        if count > ENTRIES_MAX or remaining < 0:
            raise too_many()
        if entry.kind != "directory":
            yield entry
        elif len(stack) >= depth_max:
            yield attrs.evolve(entry, kind="deep")
        else:
            try:
                stack.append(iter(list_directory(root, entry.path)))
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in _HOST_ERRORS:
                    raise
                yield attrs.evolve(entry, kind="unreadable")
