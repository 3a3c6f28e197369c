"""Paths inside a workspace: validation, and git's quoting in patches."""

from __future__ import annotations

import os
import re

from agentbench_core.errors import PathEscapeError

# HFS+ ignores these when it compares names, so `.g\u200cit` is `.git` there (CVE-2014-9390).
_IGNORED_ON_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


TOOL_CACHES = frozenset({".pytest_cache", ".mypy_cache", ".ruff_cache", ".DS_Store"})
"""Caches that tools leave behind; never part of a change."""

NOTHING = "/dev/null"
"""The name on a side of a diff where the file does not exist."""
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
"""A quoted name; the group is the input of :func:`unquoted`."""
_PREFIXES = {("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w")}  # git's own, and its mnemonic ones
_PAIRS = _PREFIXES | {pair[::-1] for pair in _PREFIXES}  # also for reversed diffs
_NAMED = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
_BYTES = {name.encode(): byte for byte, name in _NAMED.items()}
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def is_repository_name(name: str) -> bool:
    """Whether any file system treats ``name`` as ``.git``: any case, trailing dots or spaces, ``git~1``."""
    return name.translate(_IGNORED_ON_HFS).rstrip(" .").casefold() in (".git", "git~1")


def components(path: str) -> tuple[str, ...]:
    """The parts of a relative path with ``/``.

    Raises:
        PathEscapeError: the path is absolute or empty, has an empty, ``.``, ``..`` or ``.git`` part, contains a NUL,
            or cannot be encoded as a file name.
    """
    if not path:
        raise PathEscapeError("the path is empty")
    if "\0" in path:
        raise PathEscapeError(f"{path!r} contains a NUL byte")
    if path.startswith("/"):
        raise PathEscapeError(f"{path!r} is absolute; paths are relative to the workspace")
    parts = tuple(path.split("/"))
    for part in parts:
        if part in ("", ".", ".."):
            raise PathEscapeError(f"{path!r} contains {part!r}; use a plain path relative to the workspace")
        if is_repository_name(part):
            raise PathEscapeError(f"{path!r} is inside a git directory, which is not accessible")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathEscapeError(f"{path!r} is not a valid file name") from None
    return parts


def _escaped(byte: int) -> str:
    if byte in _NAMED:
        return f"\\{_NAMED[byte]}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def needs_quotes(path: str) -> bool:
    """Whether git quotes a path, because of control characters, quotes, backslashes or non-ASCII characters."""
    return any(len(_escaped(byte)) > 1 for byte in path.encode("utf-8", "surrogateescape"))


def quoted(path: str) -> str:
    """A path in quotes, in ASCII. Surrogate escapes stand for bytes that are not UTF-8."""
    return '"{}"'.format("".join(map(_escaped, path.encode("utf-8", "surrogateescape"))))


def unquoted(text: str) -> str:
    """The content between git's quotes. Raises ValueError for an escape that git does not write."""

    def byte(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        value = int(escape, 8) if len(escape) == 3 else _BYTES.get(escape, 256)
        if value > 255:
            raise ValueError(f"unknown escape \\{escape.decode('utf-8', 'replace')}")
        return bytes((value,))

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def common_name(old: str, new: str) -> str | None:
    """The one file behind two names, without git's ``a/`` and ``b/``; None if they name two files."""
    if NOTHING in (old, new):
        name = new if old == NOTHING else old
        prefix, slash, rest = name.partition("/")
        return rest if slash and any(prefix in pair for pair in _PAIRS) else name
    old_prefix, _, old_rest = old.partition("/")
    new_prefix, _, new_rest = new.partition("/")
    if (old_prefix, new_prefix) in _PAIRS:
        return old_rest if old_rest == new_rest else None
    return old if old == new else None


def file_of_git_line(line: str) -> str | None:
    """The file on a ``diff --git`` line; None if it cannot be determined, or if there are two."""
    rest = line.removeprefix("diff --git ")
    if '"' in (rest[:1], rest[-1:]):
        match = re.fullmatch(rf"{QUOTED.pattern} {QUOTED.pattern}", rest)
        try:
            return common_name(unquoted(match[1]), unquoted(match[2])) if match else None
        except ValueError:
            return None
    # Names may contain spaces. Both halves are equally long, since renames are rejected.
    middle = len(rest) // 2
    return common_name(rest[:middle], rest[middle + 1 :]) if rest[middle : middle + 1] == " " else None
