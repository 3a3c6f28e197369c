"""What a path inside a workspace may look like."""

from __future__ import annotations

import os

from agentbench_core.errors import PathEscapeError

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
