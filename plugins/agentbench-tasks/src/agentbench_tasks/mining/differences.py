"""Read the changed lines of commits from one ``git log --patch``.

Everything in the output is untrusted: lines are counted as stated in the headers of hunks, so a line of a file cannot
pass as a header, and all sizes are limited.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO

import attrs

from agentbench_core import Deadline, SandboxError
from agentbench_core.harness import Git
from agentbench_tasks.mining.history import DIFFERENCES, LIMITED
from agentbench_tasks.mining.roles import role
from agentbench_tasks.mining.values import Commit

_HUNK = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_SIMILARITY = re.compile(rb"similarity index (\d{1,3})%\n")
_LONGEST_LINE = 1 << 16  # bytes of a line that are read at once
_LONGEST_KEPT = 1000  # characters of a line
_MOST_LINES = 2000  # per file
_BLANKS = (None, b" \t\r\n\f\v")


@attrs.frozen(kw_only=True)
class FileDifference:
    """The changed lines of one file; empty for a file that is neither source nor test."""

    similarity: int = 0  #: of a renamed file, in percent
    lines: tuple[str, ...] = ()  #: changed lines, each after `+` or `-`
    contexts: tuple[str, ...] = ()  #: the definitions that contain the changes, as far as git reports them


@attrs.frozen(kw_only=True)
class Difference:
    """The changed lines of a commit."""

    files: tuple[FileDifference, ...]  #: in the order of the commit's files
    digest: str  #: equal for commits with the same changes to source and tests


def read_differences(git: Git, commits: Sequence[Commit], deadline: Deadline) -> Iterator[Difference]:
    """The differences of commits from their first parents, in the given order, read by one git process.

    Raises:
        SandboxError: the repository is damaged, or git failed.
        DeadlineExceeded: the deadline has passed.
    """
    if not commits:
        return  # without ids, git would print the difference of HEAD
    arguments = (*LIMITED, "log", *DIFFERENCES, "--patch", "--unified=0", "--format=commit %H")
    with tempfile.TemporaryFile() as ids:
        ids.writelines(f"{commit.id}\n".encode() for commit in commits)
        ids.seek(0)
        with git.start(*arguments, deadline=deadline, stdin=ids) as (process, _):
            assert process.stdout is not None
            lines = _Lines(process.stdout)
            for commit in commits:
                if lines.current and lines.current != f"commit {commit.id}\n".encode():
                    raise SandboxError(f"git log prints {lines.current[:100]!r} instead of commit {commit.id}")
                lines.advance()
                yield _difference(commit, lines)


class _Lines:
    """Lines of bytes. A very long line consists of several parts."""

    def __init__(self, stdout: IO[bytes]) -> None:
        self._stdout = stdout
        self.current = b""
        self.advance()

    def advance(self) -> None:
        """Read the next line or part; an empty one is the end."""
        self.current = self._stdout.readline(_LONGEST_LINE)


def _difference(commit: Commit, lines: _Lines) -> Difference:
    files = []
    parts = []
    if lines.current == b"\n":
        lines.advance()
    for change in commit.files:
        relevant = role(change.path) != "other" or role(change.old_path) != "other"
        content = hashlib.sha256() if relevant else None
        files.append(_file(lines, content.update if content else None))
        if content is not None:
            name = change.path.encode("utf-8", "surrogateescape")
            parts.append(hashlib.sha256(name).digest() + content.digest())
    return Difference(files=tuple(files), digest=hashlib.sha256(b"".join(sorted(parts))).hexdigest())


def _file(lines: _Lines, digest: Callable[[bytes], None] | None) -> FileDifference:
    """Read one file, from ``diff --git`` to the next file or commit."""
    if not lines.current.startswith(b"diff --git "):
        return FileDifference()  # the end of the output; git's exit code shows the reason
    similarity, kept, contexts = 0, list[str](), list[str]()
    _next_line(lines)
    while lines.current and not lines.current.startswith((b"diff --git ", b"commit ")):
        if found := _HUNK.fullmatch(lines.current):
            removed, added = (1 if count is None else int(count) for count in found.groups()[:2])
            if digest is not None and (context := found[3].strip()):
                contexts.append(_text(context))
            _next_line(lines)
            for _ in range(removed + added):
                if digest is not None:
                    if len(kept) < _MOST_LINES:
                        kept.append(_text(lines.current))
                    digest(lines.current.translate(*_BLANKS) + b"\n")
                _next_line(lines, digest)
                if lines.current.startswith(b"\\ "):  # no newline at the end of the file
                    _next_line(lines)
        else:
            if renamed := _SIMILARITY.fullmatch(lines.current):
                similarity = int(renamed[1])
            _next_line(lines)
    return FileDifference(similarity=similarity, lines=tuple(kept), contexts=tuple(contexts))


def _next_line(lines: _Lines, digest: Callable[[bytes], None] | None = None) -> None:
    """Go to the next line, skipping the remaining parts of the current one."""
    complete = not lines.current or lines.current.endswith(b"\n")
    lines.advance()
    while not complete and lines.current:
        complete = lines.current.endswith(b"\n")
        if digest is not None:
            digest(lines.current.translate(*_BLANKS))
        lines.advance()


def _text(line: bytes) -> str:
    return line[:_LONGEST_KEPT].decode("utf-8", "replace").rstrip("\r\n")
