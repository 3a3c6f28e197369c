"""Write the pristine tree of a commit: its files as raw bytes, and a ``.git`` with that one commit."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs

from agentbench_core.errors import InputError, ToolError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.text import printable
from agentbench_core.workspace import listing
from agentbench_core.workspace.git import EXECUTABLE, LINK, SUBMODULE, Git, GitFailedError
from agentbench_core.workspace.paths import components, quoted
from agentbench_core.workspace.tree import Tree, remove_tree

FILE_SIZE_MAX = 512 << 20
"""Maximum size of one file of a task's repository, in bytes."""

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_POINTER_MAX = 1024  # bytes; the format's own limit
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
# Files are the blobs, byte for byte. Without this, git in the workspace would expect converted files.
_ATTRIBUTES = "* -text -ident -filter !eol !working-tree-encoding\n"


@attrs.define
class Bounds:
    """Limits on a tree, since a few bytes of a repository can expand to unlimited files and memory.

    ``where`` names the tree in messages.
    """

    where: str
    _entries: int = 0
    _names: int = 0
    _bytes: int = 0

    def check(self, path: str, size: int) -> None:
        """Count one more file. Raises InputError if a limit is exceeded."""
        self._entries += 1
        self._names += len(path)
        self._bytes += size
        name = printable(path)[:200]
        if self._entries > listing.ENTRIES_MAX or self._names > listing.NAMES_MAX:
            raise InputError(f"{self.where} has more than {listing.ENTRIES_MAX} files, or their names are too long")
        if path.count("/") >= listing.DEPTH_MAX:
            raise InputError(f"{self.where}: {name!r} is nested deeper than {listing.DEPTH_MAX} directories")
        if size > FILE_SIZE_MAX:
            raise InputError(f"{self.where}: {name!r} has {size} bytes; the maximum is {FILE_SIZE_MAX >> 20} MiB")
        if self._bytes > listing.TREE_SIZE_MAX:
            raise InputError(f"{self.where} is larger than {listing.TREE_SIZE_MAX >> 30} GiB")


def write_workspace(git: Git, source: str, commit: str, into: Path, deadline: Deadline, *, omit: bool = False) -> None:
    """Write the files of a commit into an empty directory, with a ``.git``.

    Args:
        git: the repository that has the commit.
        source: where the commit comes from, for messages.
        commit: id of the commit.
        into: the empty directory.
        deadline: when git is killed.
        omit: whether to leave out submodules, in the files and in the ``.git``, instead of refusing them.

    Raises:
        InputError: the commit contains something that is not allowed in a workspace.
    """
    tree_id = git.resolve(f"{commit}^{{tree}}", deadline)
    if tree_id is None:
        raise InputError(f"{source}: commit {commit} has no tree; remove {git.git_dir} and try again")
    if omit:
        tree_id = _without_submodules(git, tree_id, deadline)
    entries = list(_entries(git, tree_id, f"{source} at {commit}", deadline))
    with Tree(into) as tree, closing(git.blobs([blob for _, _, blob in entries], deadline)) as blobs:
        for (path, mode, _), data in zip(entries, blobs, strict=True):
            if data.startswith(_LFS_POINTER) and len(data) < _LFS_POINTER_MAX:
                raise InputError(
                    f"{source} at {commit}: {printable(path)!r} is a Git LFS pointer; LFS is not supported",
                    remedy="Use a plain directory or a bundle that contains the actual files.",
                )
            try:
                if mode == LINK:
                    tree.link(path, os.fsdecode(data))
                else:
                    tree.write(path, data, executable=mode == EXECUTABLE)
            except (ToolError, ValueError) as error:
                raise InputError(f"{source} at {commit} cannot be written: {error}") from None
    _write_git(git, tree_id, into / ".git", deadline)


def packed(workspace: Path) -> tuple[str, Path]:
    """The commit of a workspace that :func:`write_workspace` wrote, and the file with its objects."""
    (pack,) = (workspace / ".git/objects/pack").glob("*.pack")
    return (workspace / ".git/refs/heads/main").read_text().strip(), pack


def write_packed(commit: str, pack: Path, into: Path, deadline: Deadline) -> None:
    """Write the workspace of :func:`packed` into a new directory. ``pack`` is removed.

    Raises InputError if the file is damaged, or contains something that is not allowed in a workspace.
    """
    git = Git(pack.with_suffix(".git"))
    git.create()
    pack = pack.rename(git.git_dir / "objects/pack/source.pack")
    try:
        git.run("index-pack", str(pack), deadline=deadline)
        into.mkdir()
        write_workspace(git, "the source of the task", commit, into, deadline)
    except GitFailedError as error:
        raise InputError(f"the source of the task is damaged: {error}") from None
    finally:
        remove_tree(git.git_dir)


def _without_submodules(git: Git, tree_id: str, deadline: Deadline) -> str:
    """The id of the same tree without submodules; the tree is written if it has any."""
    found = []
    for line in git.lines("ls-tree", "-r", "-z", tree_id, deadline=deadline):
        fields, _, raw = line.partition(b"\t")
        if fields.split()[0].decode() == SUBMODULE:
            found.append(os.fsdecode(raw))
    if not found:
        return tree_id
    ref = f"refs/without-submodules/{uuid.uuid4()}"  # only for this call: others may write the same tree
    with git.commit(ref, deadline, base_tree=tree_id) as writer:
        for path in found:
            writer.remove(path)
    git.run("update-ref", "-d", ref, deadline=deadline)
    return writer.tree


def _entries(git: Git, tree_id: str, where: str, deadline: Deadline) -> Iterator[tuple[str, str, str]]:
    """Path, mode and blob of every file. Raises InputError for anything that is not allowed in a workspace."""
    seen: set[str] = set()
    bounds = Bounds(where)
    for line in git.lines("ls-tree", "-r", "-z", "-l", tree_id, deadline=deadline):
        fields, _, raw = line.partition(b"\t")
        mode, _, blob, size = fields.decode().split()
        path = os.fsdecode(raw)
        if mode == SUBMODULE:
            raise InputError(
                f"{where}: {printable(path)!r} is a submodule; submodules are not supported",
                remedy="Set `repo.submodules: omitted` if the task works without its files, or use a plain directory.",
            )
        try:
            components(path)
        except ToolError as error:
            raise InputError(f"{where} contains a path that is not allowed in a workspace: {error}") from None
        bounds.check(path, int(size) if size.isdecimal() else 0)
        if path in seen:
            raise InputError(f"{where} contains {printable(path)!r} twice")
        seen.add(path)
        yield path, mode, blob


def _write_git(git: Git, tree_id: str, git_dir: Path, deadline: Deadline) -> None:
    """Write a ``.git``: the objects of one commit, its branch and its index. Git is not run in the workspace."""
    head = git.run("commit-tree", tree_id, "-m", "Source tree", deadline=deadline).decode().strip()
    pack = git_dir / "objects/pack"
    for directory in (pack, git_dir / "objects/info", git_dir / "refs/heads", git_dir / "refs/tags", git_dir / "info"):
        directory.mkdir(parents=True)
    # Git renames the finished pack, so it must be created on the same file system.
    env = {
        "GIT_OBJECT_DIRECTORY": str(git_dir / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(str(git.git_dir.resolve() / "objects")),
    }
    git.run(
        "pack-objects", "--quiet", "--revs", str(pack / "pack"), stdin=f"{head}\n".encode(), deadline=deadline, env=env
    )
    git.run("read-tree", tree_id, env={"GIT_INDEX_FILE": str(git_dir / "index")}, deadline=deadline)
    (git_dir / "config").write_text(_CONFIG)
    (git_dir / "info/attributes").write_text(_ATTRIBUTES)
    (git_dir / "refs/heads/main").write_text(f"{head}\n")
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
