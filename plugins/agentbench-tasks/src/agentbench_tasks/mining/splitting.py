"""Split a fix into hidden tests and reference patch, and mark both with canaries."""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence

import attrs

from agentbench_core import Deadline, path_matcher
from agentbench_core.harness import DEFAULT_PROTECTED, Git
from agentbench_tasks.mining.commit_tree import LARGEST
from agentbench_tasks.mining.history import LIMITED
from agentbench_tasks.mining.roles import role
from agentbench_tasks.mining.values import Code, Commit, RejectedError

REGULAR, EXECUTABLE = "100644", "100755"
"""Modes of regular files in git."""
_NONE = "000000"
_MOST_HIDDEN = 200
_MOST_CHANGED = 500
_MOST_BYTES = 64 << 20
_LARGEST_PATCH = 1000 << 10  # files of tasks have at most 1 MiB
PROTECTED = (*DEFAULT_PROTECTED, "**/tests", "**/test", "**/test_*.py", "**/*_test.py")
"""Globs of files that agents cannot change: the defaults, and tests anywhere. Hidden files are always protected."""
_TEST = re.compile(rb"^(?:\s*(?:async\s+)?def\s+test|class\s+Test)", re.MULTILINE)
_HUNK = re.compile(r"^(@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)(.*)$", re.MULTILINE)


@attrs.frozen(kw_only=True)
class File:
    """The content of a file after the fix."""

    data: bytes = attrs.field(repr=False)
    executable: bool


@attrs.frozen(kw_only=True)
class Split:
    """The two parts of a fix."""

    hidden: Mapping[str, File]  #: the tests and their helpers after the fix, by path in the repository
    changed: Mapping[str, File | None]  #: all other files that the reference patch changes; `None` if it deletes one
    patch: str = attrs.field(repr=False)  #: the reference patch, without a canary

    @property
    def test_modules(self) -> Sequence[str]:
        """The hidden files from which pytest collects tests."""
        return [path for path, file in self.hidden.items() if is_test_module(path) or _has_tests(path, file.data)]


@attrs.frozen
class _Entry:
    old_mode: str
    new_mode: str
    blob: str
    path: str


def split(git: Git, commit: Commit, deadline: Deadline, *, hidden_paths: Sequence[str] | None = None) -> Split:
    """Split the difference between a commit and its first parent.

    Args:
        git: the repository.
        commit: the fix.
        deadline: when git is killed.
        hidden_paths: the files to hide; default: by their role.

    Raises:
        RejectedError: a file cannot be part of a task, or one of the parts is empty.
    """
    entries = list(_entries(git, commit, deadline))
    for entry in entries:  # git does not check the names in trees that it fetches
        if any(part in ("", ".", "..") or part.lower() == ".git" for part in entry.path.split("/")):
            raise RejectedError(Code.UNSUPPORTED_FILE, f"{entry.path!r} is not a path inside the repository")
    is_hidden = (lambda path: role(path) == "test") if hidden_paths is None else set(hidden_paths).__contains__
    tests = [entry for entry in entries if is_hidden(entry.path) and entry.new_mode != _NONE]
    if len(tests) > _MOST_HIDDEN:
        raise RejectedError(Code.TOO_LARGE, f"{len(tests)} test files changed; the maximum is {_MOST_HIDDEN}")
    if len(entries) > _MOST_CHANGED:
        raise RejectedError(Code.TOO_LARGE, f"{len(entries)} files changed; the maximum is {_MOST_CHANGED}")
    is_protected = path_matcher(PROTECTED)
    others = [entry for entry in entries if not is_hidden(entry.path) and not is_protected(entry.path)]
    binary = _binary(git, commit, deadline)
    others = [entry for entry in others if entry.path not in binary or role(entry.path) == "source"]
    for entry in (*tests, *others):
        _check(entry, binary=entry in others and entry.path in binary)
    contents = _read(git, [entry for entry in (*tests, *others) if entry.new_mode != _NONE], deadline)
    if not others:
        raise RejectedError(Code.NO_SOURCE_CHANGE, "the fix changes no files that agents may change")
    try:
        patch = _patch(git, commit, [entry.path for entry in others], deadline).decode()
    except UnicodeDecodeError:  # often in documentation, which most fixes do not need
        others = [entry for entry in others if role(entry.path) == "source"]
        try:
            patch = _patch(git, commit, [entry.path for entry in others], deadline).decode() if others else ""
        except UnicodeDecodeError:
            patch = ""
        if not patch:
            raise RejectedError(Code.UNSUPPORTED_FILE, "the fix changes source that is not UTF-8 text") from None
    return Split(
        hidden={entry.path: contents[entry.path] for entry in tests},
        changed={entry.path: contents.get(entry.path) for entry in others},
        patch=patch,
    )


def _entries(git: Git, commit: Commit, deadline: Deadline) -> Iterator[_Entry]:
    fields: list[str] = []
    arguments = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", commit.parent, commit.id)
    for part in git.lines(*arguments, deadline=deadline):
        if not fields:
            fields = part.decode().lstrip(":").split()
        else:
            yield _Entry(fields[0], fields[1], fields[3], os.fsdecode(part))
            fields = []


def _check(entry: _Entry, *, binary: bool) -> None:
    modes = {entry.old_mode, entry.new_mode} - {_NONE}
    try:
        entry.path.encode()
    except UnicodeEncodeError:
        raise RejectedError(Code.UNSUPPORTED_FILE, f"{entry.path!r} is not a UTF-8 file name") from None
    if not modes.issubset((REGULAR, EXECUTABLE)):
        raise RejectedError(Code.UNSUPPORTED_FILE, f"{entry.path!r} is a symbolic link or a submodule")
    if binary:
        raise RejectedError(Code.UNSUPPORTED_FILE, f"{entry.path!r} is a binary source file")


def _binary(git: Git, commit: Commit, deadline: Deadline) -> frozenset[str]:
    """Paths that git regards as binary."""
    arguments = (*LIMITED, "diff-tree", "-r", "-z", "--no-renames", "--numstat", commit.parent, commit.id)
    lines = (line.split(b"\t", 2) for line in git.lines(*arguments, deadline=deadline))
    return frozenset(os.fsdecode(fields[2]) for fields in lines if len(fields) == 3 and fields[0] == b"-")


def _read(git: Git, entries: Sequence[_Entry], deadline: Deadline) -> Mapping[str, File]:
    asked = "".join(f"{entry.blob}\n" for entry in entries).encode()
    answers = git.run("cat-file", "--batch-check=%(objectsize)", stdin=asked, deadline=deadline).split()
    sizes = [int(size) for size in answers]
    for entry, size in zip(entries, sizes, strict=True):
        if size > LARGEST:
            raise RejectedError(
                Code.UNSUPPORTED_FILE, f"{entry.path!r} has {size} bytes; the maximum is {LARGEST >> 20} MiB"
            )
    if sum(sizes) > _MOST_BYTES:
        raise RejectedError(
            Code.TOO_LARGE, f"the changed files have {sum(sizes)} bytes; the maximum is {_MOST_BYTES >> 20} MiB"
        )
    blobs = git.blobs([entry.blob for entry in entries], deadline)
    files = {
        entry.path: File(data=data, executable=entry.new_mode == EXECUTABLE)
        for entry, data in zip(entries, blobs, strict=True)
    }
    pointers = [path for path, file in files.items() if file.data.startswith(b"version https://git-lfs")]
    if pointers:
        raise RejectedError(Code.UNSUPPORTED_FILE, f"{pointers[0]!r} is a Git LFS pointer")
    return files


def _patch(git: Git, commit: Commit, paths: Sequence[str], deadline: Deadline) -> bytes:
    options = ("-p", "-r", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/")
    arguments = (*LIMITED, "diff-tree", *options, "--dst-prefix=b/", commit.parent, commit.id)
    magic = [f":(top,literal){path}" for path in paths]
    printed = git.run(*arguments, "--", *magic, deadline=deadline)
    if len(printed) > _LARGEST_PATCH:
        raise RejectedError(
            Code.TOO_LARGE, f"the patch has {len(printed)} bytes; the maximum is {_LARGEST_PATCH >> 10} KiB"
        )
    return printed


def is_test_module(path: str) -> bool:
    """Whether pytest collects tests from a file with this name by default."""
    name = posixpath.basename(path)
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _has_tests(path: str, data: bytes) -> bool:
    return path.endswith(".py") and not path.endswith("conftest.py") and _TEST.search(data) is not None


def with_canary(patch: str) -> str:
    """The patch with a canary after the second ``@@`` of its first hunk, where git ignores it."""
    return _HUNK.sub(lambda match: f"{match[1]} agentbench-canary: {uuid.uuid4()}", patch, count=1)


def marked(path: str, data: bytes) -> bytes:
    """A hidden Python file with a canary in a comment at its end, so that no line number changes."""
    if not path.endswith(".py"):
        return data
    end = b"" if not data or data.endswith(b"\n") else b"\n"
    return data + end + f"# agentbench-canary: {uuid.uuid4()}\n".encode()
