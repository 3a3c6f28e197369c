"""Read the main line of a repository's history.

The main line consists of the first parents of a commit and, where a long-lived branch such as ``stable`` or ``8.1.x``
was merged, of the first parents on that branch: many projects fix errors there.

Everything in a history is untrusted: names and messages can be any bytes, and all sizes are limited.
"""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Literal

import attrs

from agentbench_core import Deadline, InputError
from agentbench_core.harness import Git, History
from agentbench_tasks.mining.values import Commit, FileChange, moment

MOST_FILES = 2000
"""Maximum number of files that are listed for one commit."""
LIMITED = ("-c", "core.bigFileThreshold=1m")
"""Options before the name of a git command: larger files are treated as binary, so that differences stay cheap."""
DIFFERENCES = (
    *("--no-walk=unsorted", "--stdin", "--first-parent", "-m", "--find-renames", "-l200"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-abbrev", "--encoding=UTF-8"),
)
"""Options of ``git log`` for the differences of given commits. All outputs list the files in the same order."""

_LONGEST_FIELD = 1 << 16  # bytes of a message, a name or a path; the rest is dropped
_LONGEST_PATH = 4096  # bytes
_LONGEST_MERGED = 1 << 13  # characters of the message of a merged commit
_MOST_MERGED = 100  # messages per merge
_MOST_LEVELS = 10  # of branches that were merged into merged branches
_MOST_BYTES = 1 << 29  # of names and messages
_CHUNK = 1 << 18
_DAY = 24 * 60 * 60
_END_OF_TIME = 253402300799  # the last second of the year 9999

_VERSION = (
    r"v?\d{1,9}(?:\.(?:\d{1,9}|x)){1,9}(?:[-.]\w{1,30}){0,9}|v?\d{1,9}[.-](?:x|stable|maintenance|release)[\w-]{0,30}"
)
_BRANCH = (
    "(?:main|master|trunk|default|dev|devel|develop|development|next|features|stable|production"
    rf"|(?:release|rel|maint|maintenance|support)[/_-][\w.-]{{1,99}}|(?:[a-z]{{1,30}}-)?(?:{_VERSION}))"
)
_LONG_LIVED = re.compile(
    r"Merged? (?:remote-tracking |remote )?(?:from |branch |tag )?"
    rf"['\"`]?(?:[\w-]{{1,99}}/)??(?P<branch>{_BRANCH})['\"`]?(?: branch)?(?:,? of \S{{1,200}})?"
    r"(?: (?:in)?to \S.*|[ .]{0,9}(?:\(#\d{1,9}\))?[ .]{0,9})",
    re.IGNORECASE,
)


def long_lived_branch(subject: str) -> str:
    """The name of the branch if a commit with this subject merges a long-lived branch, or an empty string.

    Pull requests are not included: in a fork, a branch `main` is often the branch of one change.
    """
    found = _LONG_LIVED.fullmatch(subject)
    return found["branch"] if found else ""


def read_history(git: Git, tip: str, *, since: str = "", until: str = "", deadline: Deadline) -> Sequence[Commit]:
    """The commits of the main line of ``tip``, newest first, without commits that have no parent in the repository.

    ``since`` and ``until`` are dates or times in ISO 8601, in UTC unless they contain an offset. They apply to the
    committer date and are inclusive; if ``until`` is a date, that day is included.

    The number of git processes does not depend on the number of commits.

    Raises:
        InputError: a date is invalid, ``tip`` does not exist, or the history is too large to be read at once.
        GitFailedError: the repository is damaged.
        DeadlineExceeded: the deadline has passed.
    """
    earliest, latest = _bound(since, end=False), _bound(until, end=True)
    if git.resolve(f"{tip}^{{commit}}", deadline) is None:
        raise InputError(f"the repository has no commit {tip!r}")
    line = _main_line(git, tip, deadline)
    selected = [entry for entry in line if entry.parents and earliest <= entry.time < latest]
    if not selected:
        return []
    messages = _merged_messages(git, line, selected, deadline)
    commits = _commits(git, [entry.id for entry in selected], deadline)
    return [attrs.evolve(commit, merged=messages[commit.id]) if commit.id in messages else commit for commit in commits]


@attrs.frozen
class _Entry:
    id: str
    parents: tuple[str, ...]
    time: int  # committer date, in seconds
    message: str


def _bound(text: str, *, end: bool) -> float:
    """The first second of a date or time or, with ``end``, the first second after it."""
    if not text:
        return float("inf") if end else float("-inf")
    try:
        day = datetime.date.fromisoformat(text)
        start = datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()
        return start + _DAY if end else start
    except ValueError:
        pass
    try:
        seconds = moment(text).timestamp()
    except ValueError:
        raise InputError(f"{text!r} is not a valid date; examples: 2024-05-01, 2024-05-01T12:00:00Z") from None
    return int(seconds) + 1 if end else seconds


def _main_line(git: Git, tip: str, deadline: Deadline) -> list[_Entry]:
    """The main line, newest first; a commit always precedes its parents, regardless of their dates."""
    tips, line = [tip], list[_Entry]()
    for _ in range(_MOST_LEVELS):
        line = list(_entries(git, tips, deadline, "--first-parent", "--date-order", subjects=True))
        known = {entry.id for entry in line}
        merges = [entry for entry in line if len(entry.parents) > 1 and long_lived_branch(entry.message)]
        merged = dict.fromkeys(parent for entry in merges for parent in entry.parents[1:] if parent not in known)
        if not merged:
            break
        tips += merged
    return line


def _merged_messages(
    git: Git, line: Sequence[_Entry], selected: Sequence[_Entry], deadline: Deadline
) -> Mapping[str, tuple[str, ...]]:
    """The messages that each merge brought in, of commits that are neither in an older merge nor on the main line."""
    merges = [entry for entry in selected if len(entry.parents) > 1]
    if not merges:
        return {}
    tips = [parent for entry in merges for parent in entry.parents[1:]]
    graph = {
        entry.id: entry for entry in _entries(git, [*tips, f"^{selected[-1].parents[0]}"], deadline, "--topo-order")
    }
    place = {id_: number for number, id_ in enumerate(graph)}
    assigned = {entry.id for entry in line}
    messages = {}
    for merge in reversed(merges):
        found = []
        stack = list(merge.parents[1:])
        while stack:
            entry = graph.get(stack.pop())
            if entry is not None and entry.id not in assigned:
                assigned.add(entry.id)
                found.append(entry)
                stack += entry.parents
        found.sort(key=lambda entry: -place[entry.id])
        texts = [entry.message for entry in found if len(entry.parents) < 2]
        messages[merge.id] = tuple(texts[:_MOST_MERGED])
    return messages


def _entries(
    git: Git, tips: Iterable[str], deadline: Deadline, *options: str, subjects: bool = False
) -> Iterator[_Entry]:
    layout = f"--format=%H %ct %P%x00%{'s' if subjects else 'B'}"
    with _fields(
        git, "log", *options, "--stdin", "-z", "--encoding=UTF-8", layout, stdin=tips, deadline=deadline
    ) as fields:
        for head in fields:
            id_, time, *parents = head.decode().rstrip(" ").split(" ")
            message = _text(next(fields, b"")).strip("\n")
            yield _Entry(id_, tuple(parents), _seconds(time), message[:_LONGEST_MERGED])


def _commits(git: Git, ids: Iterable[str], deadline: Deadline) -> Iterator[Commit]:
    layout = "--format=commit%x00%H %P%x00%ct %at%x00%an <%ae>%x00%B"
    arguments = (*LIMITED, "log", *DIFFERENCES, "--raw", "--numstat", "-z", layout)
    with _fields(git, *arguments, stdin=ids, deadline=deadline) as fields:
        field: bytes | None = next(fields, None)
        while field is not None:
            id_, parent, *_ = next(fields, b" ").decode().split(" ")
            committed, _, authored = next(fields, b"").decode().partition(" ")
            author, message = _text(next(fields, b"")), _text(next(fields, b""))
            subject, _, body = message.strip("\n").partition("\n")
            files, field = _files(fields)
            yield Commit(
                id=id_,
                parent=parent,
                date=_date(committed),
                author_date=_date(authored),
                author=author,
                subject=subject,
                body=body.strip("\n"),
                files=files,
            )


_STATUS: Mapping[str, Literal["added", "deleted", "modified", "renamed"]] = {
    "A": "added",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
}
_ABSENT = b"000000"
_FILE_MODES = frozenset({b"100644", b"100755", b"100664", _ABSENT})


def _files(fields: Iterator[bytes]) -> tuple[tuple[FileChange, ...], bytes | None]:
    """The files of a commit, and the first field of the next commit, which is None at the end."""
    changes: list[tuple[str, bytes, bytes]] = []  # status, old path, new path
    lines: dict[bytes, tuple[bytes, bytes]] = {}
    end = None
    for field in fields:
        if field == b"commit":
            end = field
            break
        if field.startswith((b":", b"\n:")):
            old_mode, mode, _, _, letter = field.strip().lstrip(b":").split(b" ")
            old = next(fields, b"")
            new = next(fields, b"") if letter[:1] in (b"R", b"C") else old
            files_only = {old_mode, mode} <= _FILE_MODES and max(len(old), len(new)) <= _LONGEST_PATH
            changes.append((letter[:1].decode() if files_only else "", b"" if old_mode == _ABSENT else old, new))
        else:
            added, removed, path = field.strip(b"\n").split(b"\t", 2)
            if not path:
                _, path = next(fields, b""), next(fields, b"")
            lines[path] = added, removed
        del changes[MOST_FILES:]
    return tuple(_change(*change, *lines.get(change[2], (b"0", b"0"))) for change in changes), end


def _change(letter: str, old: bytes, new: bytes, added: bytes, removed: bytes) -> FileChange:
    path = new.decode("utf-8", "surrogateescape")
    return FileChange(
        path=path,
        old_path=path if old == new else old.decode("utf-8", "surrogateescape"),
        status=_STATUS.get(letter, "other"),
        added=0 if added == b"-" else int(added),
        removed=0 if removed == b"-" else int(removed),
        binary=added == b"-",
    )


@contextmanager
def _fields(git: Git, *arguments: str, stdin: Iterable[str], deadline: Deadline) -> Iterator[Iterator[bytes]]:
    """The complete NUL-terminated fields that a git command prints, without the ends of very long fields."""
    with tempfile.TemporaryFile() as file:
        file.writelines(f"{line}\n".encode() for line in stdin)
        file.seek(0)
        with git.start(*arguments, deadline=deadline, stdin=file) as (process, _):
            assert process.stdout is not None
            yield _split(process.stdout)


def _split(stdout: IO[bytes]) -> Iterator[bytes]:
    rest, total = b"", 0
    while chunk := stdout.read1(_CHUNK):  # type: ignore[attr-defined]  # it is a BufferedReader
        *complete, rest = (rest + chunk).split(b"\0")
        for field in complete:
            total += min(len(field), _LONGEST_FIELD)
            yield field[:_LONGEST_FIELD]
        if total > _MOST_BYTES:
            limit = f"{_MOST_BYTES >> 20} MiB of names and messages"
            raise InputError(f"the history has more than {limit}: select part of it with --since and --until")
        rest = rest[: _LONGEST_FIELD + 1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _seconds(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,12}", text) else 0


def _date(text: str) -> str:
    seconds = min(max(_seconds(text), 0), _END_OF_TIME)
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_commit(git: Git, commit: str, *, deadline: Deadline) -> Commit:
    """One commit, with its difference from its first parent, which is empty for a commit without parents."""
    (found,) = _commits(git, [commit], deadline)
    if not found.parent:
        return found
    (entry,) = _entries(git, [commit], deadline, "--no-walk")
    messages = _merged_messages(git, [entry], [entry], deadline)
    return attrs.evolve(found, merged=messages.get(entry.id, ()))


def find_commit(history: History, name: str, deadline: Deadline) -> str | None:
    """The id of a commit named by a user. ``HEAD`` refers to the HEAD of the source, not of the copy."""
    name = re.sub(r"\A(?:HEAD|@)(?=[~^]|\Z)", history.head, name)
    return history.git.resolve(f"{name}^{{commit}}", deadline)
