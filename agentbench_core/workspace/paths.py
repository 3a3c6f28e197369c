"""What a path inside a workspace may look like, and which paths a list of globs means."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pathspec

from agentbench_core.errors import InputError, PathEscapeError

# HFS+ leaves these out when it compares names, so `.g\u200cit` is `.git` there (CVE-2014-9390).
_IGNORED_ON_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


TOOL_CACHES = frozenset({".pytest_cache", ".mypy_cache", ".ruff_cache", ".DS_Store"})
"""What tools leave behind wherever they run; nobody's work, and no part of a change."""


def is_repository_name(name: str) -> bool:
    """Whether some file system takes ``name`` for ``.git``: any case, trailing dots or spaces, ``git~1``."""
    return name.translate(_IGNORED_ON_HFS).rstrip(" .").casefold() in (".git", "git~1")


def components(path: str) -> tuple[str, ...]:
    """The parts of a relative path with ``/``.

    Raises:
        PathEscapeError: absolute, empty, with an empty, ``.``, ``..`` or ``.git`` part, with a NUL, or not
            encodable as a file name.
    """
    if not path:
        raise PathEscapeError("the path is empty")
    if "\0" in path:
        raise PathEscapeError(f"{path!r} has a NUL in it")
    if path.startswith("/"):
        raise PathEscapeError(f"{path!r} is absolute; paths are relative to the workspace")
    parts = tuple(path.split("/"))
    for part in parts:
        if part in ("", ".", ".."):
            raise PathEscapeError(f"{path!r} has the part {part!r}; write the plain path relative to the workspace")
        if is_repository_name(part):
            raise PathEscapeError(f"{path!r} lies in a git directory, which is out of reach")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathEscapeError(f"{path!r} cannot be a file name") from None
    return parts


def printable(path: str) -> str:
    """A path for a message or a record: bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def matches(globs: Sequence[str]) -> Callable[[str], bool]:
    """Tell whether a path is meant by ``globs``, read as in a ``.gitignore``.

    ``/pytest.ini`` and ``tests/**`` are anchored at the root, ``**/conftest.py`` and ``conftest.py`` mean any
    depth, ``!`` takes back what an earlier glob took in: the last one that fits decides. No globs: nothing.

    Raises:
        InputError: a glob that cannot be read.
    """
    try:
        spec = pathspec.GitIgnoreSpec.from_lines(globs)
    except ValueError as error:
        raise InputError(f"a glob of {list(globs)!r} cannot be read: {error}") from None

    def meant(path: str) -> bool:
        # In the patterns `.` stops at a newline: a directory `a\nb` must not put its files out of their reach.
        return spec.match_file(path.replace("\n", "?"))

    return meant
