"""Freeze a workspace and compute its changes, without trusting anything in it.

Files are written as bytes to a bare repository of the harness: no ``.gitignore``, filter, nested repository or index in
the workspace affects the result. Freeze only after the workspace's processes are dead.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import threading
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

import attrs

from agentbench_core.errors import PathEscapeError, SandboxError, ToolError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Change
from agentbench_core.values.text import printable
from agentbench_core.workspace import listing
from agentbench_core.workspace.git import EXECUTABLE, FILE, LINK, CommitWriter, Git
from agentbench_core.workspace.listing import TreeEntry
from agentbench_core.workspace.tree import Tree

FILE_SIZE_MAX = 64 * 1024 * 1024
"""Maximum bytes of a file; larger files are excluded, and reported with their size."""
DIFF_SIZE_MAX = 16 << 20
"""Maximum bytes of a diff; a longer one is cut, with a line that states its size and its digest."""
_DIGEST_MAX = 1 << 30  # bytes; larger files are reported without a digest
_WHOLE = 1024 * 1024  # bytes; larger files are streamed
_CHUNK = 1024 * 1024
_DIFF = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


@attrs.frozen
class Snapshot:
    """The state of a tree: the id of its git tree, and one line for each thing that git cannot store."""

    tree: str
    oddities: tuple[str, ...] = ()


@attrs.frozen
class Frozen:
    """The result of an agent's work on a workspace: the changes, and the oddities that the base did not have."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    oddities: tuple[str, ...]


class Snapshots:
    """Snapshots of trees, stored in one bare repository. Threads may share it.

    Args:
        directory: becomes the repository; created if missing. Nothing from a sandbox may write to it.
        deadline: for all operations, unless a call passes its own.
    """

    def __init__(self, directory: Path, deadline: Deadline) -> None:
        self._git = Git(directory)
        self._deadline = deadline
        self._known: set[bytes] = set()  # digests of blobs that the repository has
        self._lock = threading.Lock()
        self._git.create()

    def take(self, workspace: Path, deadline: Deadline | None = None) -> Snapshot:
        """Freeze a tree. Files are streamed, so their size does not affect memory.

        Raises:
            ToolError: the tree cannot be frozen: ``too_many_files``, ``too_large``, ``no_access``.
            SandboxError: the tree is still being written to, or git failed.
            UnavailableError: git is missing.
            DeadlineExceeded: the deadline has passed.
        """
        deadline = deadline or self._deadline
        snapshotter = _Snapshotter(self._known)
        ref = f"refs/snapshots/{uuid.uuid4().hex}"
        with _opened(workspace) as tree, self._git.commit(ref, deadline) as writer:
            for entry in tree.walk():
                snapshotter.take(tree, entry, writer)
        with self._lock:  # only now are the sent blobs in the repository
            self._known |= snapshotter.sent
        return Snapshot(writer.tree, tuple(snapshotter.oddities))

    def freeze(self, base: Snapshot, workspace: Path, deadline: Deadline | None = None) -> Frozen:
        """Take a snapshot and compare it with the base. Raises like :meth:`take`."""
        snapshot = self.take(workspace, deadline)
        before = set(base.oddities)
        new = tuple(oddity for oddity in snapshot.oddities if oddity not in before)
        return Frozen(snapshot, self.changes(base, snapshot, deadline), new)

    def changes(self, base: Snapshot, other: Snapshot, deadline: Deadline | None = None) -> tuple[Change, ...]:
        """The changes from ``base`` to ``other``, sorted by path. A rename is a deletion and an addition."""
        if base.tree == other.tree:
            return ()
        arguments = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base.tree, other.tree)
        output = self._git.run(*arguments, deadline=deadline or self._deadline)
        fields = output.split(b"\0")[:-1]
        return tuple(_change(*pair) for pair in zip(fields[::2], fields[1::2], strict=True))

    def diff(
        self, base: Snapshot, other: Snapshot, changes: Collection[Change], deadline: Deadline | None = None
    ) -> bytes:
        """A patch with only these changes between the two snapshots, including binary files.

        It is cut after ``DIFF_SIZE_MAX`` bytes, and a last line states this; :meth:`restore` does not use it.
        """
        if not changes:
            return b""
        deadline = deadline or self._deadline
        # Path arguments would also match directories and globs, so compare with a tree that has just these changes.
        with self._git.commit(f"refs/snapshots/{uuid.uuid4().hex}", deadline, base_tree=base.tree) as writer:
            for change in sorted(changes, key=lambda change: change.kind != "deleted"):
                if change.kind == "deleted":
                    writer.remove(change.path)
                else:
                    writer.add_known(change.path, change.new_mode, change.new_blob)
        arguments = ("diff-tree", "-r", "-p", *_DIFF, base.tree, writer.tree)
        with self._git.start(*arguments, deadline=deadline) as (process, _):
            assert process.stdout is not None
            return _cut(process.stdout)

    def contents(
        self, changes: Sequence[Change], deadline: Deadline | None = None
    ) -> Iterator[tuple[Change, bytes, bytes]]:
        """Each change with the file's contents before and after it, one at a time; empty where there is no file."""
        blobs = [blob for change in changes for blob in (change.old_blob, change.new_blob) if blob]
        with closing(self._git.blobs(blobs, deadline or self._deadline)) as contents:
            for change in changes:
                before = next(contents) if change.old_blob else b""
                yield change, before, next(contents) if change.new_blob else b""

    def apply(
        self, changes: Collection[Change], into: Tree, *, links: bool = False, deadline: Deadline | None = None
    ) -> None:
        """Write the new state of these changes into a tree, and remove deleted files there.

        Raises:
            PathEscapeError: a change is a link and ``links`` is false; nothing is written.
            ToolError: a path cannot be written in that tree.
        """
        wanted = [change for change in changes if change.kind != "deleted"]
        if not links and (made := [change for change in wanted if change.new_mode == LINK]):
            raise PathEscapeError(f"{printable(made[0].path)!r} is a link; links are not written")
        for change in changes:
            if change.kind == "deleted" or change.old_mode == LINK:
                _remove(into, change.path)
        with closing(self._git.blobs([change.new_blob for change in wanted], deadline or self._deadline)) as blobs:
            for change, data in zip(wanted, blobs, strict=True):
                if change.new_mode == LINK:
                    into.link(change.path, os.fsdecode(data))
                else:
                    into.write(change.path, data, executable=change.new_mode == EXECUTABLE)


class _Snapshotter:
    """One snapshot in progress: the sent entries, and the unusual ones."""

    def __init__(self, known: set[bytes]) -> None:
        self._known = known
        self._remaining = listing.TREE_SIZE_MAX
        self.sent: set[bytes] = set()
        self.oddities: list[str] = []

    def take(self, tree: Tree, entry: TreeEntry, writer: CommitWriter) -> None:
        self.oddities += _oddities(entry)
        self._remaining -= entry.size if entry.kind == "file" and entry.size <= _DIGEST_MAX else 0
        if self._remaining < 0:
            raise ToolError("too_large", f"the files of the tree total more than {listing.TREE_SIZE_MAX >> 30} GiB")
        if entry.kind == "link":
            target = os.fsencode(entry.target)
            writer.add(entry.path, LINK, len(target), (target,))
        elif entry.kind == "file":
            try:
                fd = tree.open(entry.path)
            except ToolError as error:
                self.oddities.append(f"unreadable: {printable(entry.path)} ({error.error_type})")
                return
            with os.fdopen(fd, "rb", buffering=0) as file:
                if entry.size > FILE_SIZE_MAX:
                    self.oddities.append(_too_large(fd, entry))
                else:
                    self._take_file(file, entry, writer)

    def _take_file(self, file: io.FileIO, entry: TreeEntry, writer: CommitWriter) -> None:
        fd = file.fileno()
        mode = EXECUTABLE if entry.mode & stat.S_IXUSR else FILE
        size = os.fstat(fd).st_size
        # Most files are unchanged since the last snapshot, so git only needs their digest.
        data = file.read(_WHOLE) if size < _WHOLE else None
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        for chunk in (data,) if data is not None else _chunks(fd):
            digest.update(chunk)
        if digest.digest() in self._known or digest.digest() in self.sent:
            writer.add_known(entry.path, mode, digest.hexdigest())
            return
        try:
            writer.add(entry.path, mode, size, (data,) if data is not None else _chunks(fd))
        except ValueError as error:
            raise SandboxError(f"the workspace changed while it was being frozen: {error}") from None
        self.sent.add(digest.digest())


def _opened(workspace: Path) -> Tree:
    """Open a workspace. Raises ToolError if it was removed or made inaccessible."""
    try:
        return Tree(workspace)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            raise
        raise ToolError("no_access", f"the workspace cannot be opened: {error.strerror}") from None


def _cut(stream: IO[bytes]) -> bytes:
    """A stream's content; after ``DIFF_SIZE_MAX`` bytes, it ends with a line with the size and digest of the whole."""
    retained = stream.read(DIFF_SIZE_MAX)
    size, digest = len(retained), hashlib.sha256(retained)
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        digest.update(chunk)
    if size == len(retained):
        return retained
    return retained + f"\n# cut: {len(retained)} of {size} bytes; sha256 of the whole: {digest.hexdigest()}\n".encode()


def _chunks(fd: int) -> Iterator[bytes]:
    start = 0
    while chunk := os.pread(fd, _CHUNK, start):
        yield chunk
        start += len(chunk)


def _oddities(entry: TreeEntry) -> Iterator[str]:
    path = printable(entry.path)
    match entry.kind:
        case "repository" if entry.path != ".git" or not stat.S_ISDIR(entry.mode):
            yield f"nested repository: {path}"
        case "special":
            yield f"{_special(entry.mode)}: {path}"
        case "deep" | "unreadable":
            yield f"{'too deep' if entry.kind == 'deep' else 'unreadable'}: {path}"
        case "file":
            if entry.mode & (stat.S_ISUID | stat.S_ISGID):
                yield f"setuid or setgid: {path}"
            if entry.nlink > 1:
                yield f"hard link ({entry.nlink} names): {path}"


def _too_large(fd: int, entry: TreeEntry) -> str:
    """The description of a large file, with a digest so that a modified file is reported as changed."""
    facts = f"{entry.size} bytes"
    if entry.size <= _DIGEST_MAX:
        digest = hashlib.sha1(usedforsecurity=False)
        for chunk in _chunks(fd):
            digest.update(chunk)
        facts += f", sha1 {digest.hexdigest()}"
    return f"too large ({facts}): {printable(entry.path)}"


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _change(raw: bytes, path: bytes) -> Change:
    old_mode, new_mode, old_blob, new_blob, status = raw.decode().lstrip(":").split(" ")
    name = os.fsdecode(path)
    if status == "A":
        return Change(name, "added", new_mode=new_mode, new_blob=new_blob)
    if status == "D":
        return Change(name, "deleted", old_mode=old_mode, old_blob=old_blob)
    return Change(name, "modified", old_mode, new_mode, old_blob, new_blob)


def _remove(tree: Tree, path: str) -> None:
    try:
        tree.remove(path)
    except ToolError as error:
        if error.error_type != "not_found":
            raise
