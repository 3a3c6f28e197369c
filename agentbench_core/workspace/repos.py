"""Write the pristine tree of a task, with one commit and no other history.

A workspace gets the files as raw bytes and a ``.git`` with one commit that no other repository has: no remotes, no
reflog, no tags, no later objects. Fetched data is cached in a bare repository per URL in the user's cache, so that a
second checkout needs no network; neither does one of a source whose history was fetched.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentbench_core.errors import InputError, ToolError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.values.text import printable
from agentbench_core.workspace.fetching import fetch, locked
from agentbench_core.workspace.git import EXECUTABLE, FILE, LINK, CommitWriter, Git, GitFailedError
from agentbench_core.workspace.listing import TreeEntry
from agentbench_core.workspace.paths import TOOL_CACHES
from agentbench_core.workspace.pristine import Bounds, write_workspace
from agentbench_core.workspace.sources import HISTORY, Source, locate, unreachable
from agentbench_core.workspace.tree import Tree, remove_tree

_LEFT_OUT = TOOL_CACHES | {".git", "__pycache__"}
_NO_SUCH_COMMIT = ("not our ref", "unadvertised object", "couldn't find remote ref", "remote ref", "shallow")
_COMMIT_SECONDS = 300.0
_CHUNK = 1 << 20


def checkout(repo: Repo, *, beside: Path, into: Path, deadline: Deadline, cache: Path | None = None) -> None:
    """Write the tree of ``repo.commit`` into a new directory, with a ``.git`` of exactly one commit.

    Args:
        repo: URL (https, ssh, file, or a path to a repository, bundle or plain directory) and full commit SHA.
        beside: the directory of ``task.yaml``, the base of relative paths.
        into: must not exist; removed again after an error.
        deadline: limits waiting for the cache's lock, and git.
        cache: the directory of the bare repositories; default: the user's cache directory.

    Raises:
        InputError: the commit is unknown, or contains something unsupported; or a plain directory has changed.
        UnavailableError: git is missing, or the repository cannot be reached.
        DeadlineExceeded: the deadline has passed.
    """
    source = locate(repo.url, beside)
    with _fetched(source, repo.commit, cache, into.parent, deadline) as git:
        into.mkdir(parents=True)
        try:
            write_workspace(git, source.name, repo.commit, into, deadline, omit=repo.submodules == "omitted")
        except BaseException:
            remove_tree(into)
            raise


def plain_directory(repo: Repo, beside: Path) -> Path | None:
    """The plain directory that is the source of a task; ``None`` for repositories, bundles and remote URLs.

    Raises InputError if ``repo.url`` is a path that does not exist, or has an unsupported scheme.
    """
    source = locate(repo.url, beside)
    return source.path if source.plain else None


def directory_commit(directory: Path) -> str:
    """SHA of the commit created from a plain directory; ``repo.commit`` must be equal to it.

    Its tree has all regular files (executable if their owner may execute them) and links, as raw bytes, without
    anything named ``.git``, ``__pycache__``, ``.pytest_cache``, ``.mypy_cache``, ``.ruff_cache`` or ``.DS_Store``. It
    has no parents, author AgentBench <agentbench@localhost>, date 946684800 +0000, and message ``Source tree``.

    Raises:
        InputError: ``directory`` is not a directory, or contains something that git cannot store.
        UnavailableError: git is missing.
    """
    with tempfile.TemporaryDirectory(prefix="agentbench-") as scratch:
        return _import_directory(Git(Path(scratch)), directory, Deadline(_COMMIT_SECONDS))


# --- plain directories -------------------------------------------------------------------------------------------


def _import_directory(git: Git, directory: Path, deadline: Deadline) -> str:
    git.create()
    try:
        with Tree(directory.resolve()) as tree, git.commit("refs/heads/source", deadline) as writer:
            bounds = Bounds(str(directory))
            for entry in tree.walk():
                if _LEFT_OUT.isdisjoint(entry.path.split("/")):
                    bounds.check(entry.path, entry.size if entry.kind == "file" else 0)
                    _add(tree, entry, writer, directory)
    except (OSError, ToolError, ValueError) as error:
        raise InputError(f"{directory} cannot be read: {error}") from None
    return writer.commit


def _add(tree: Tree, entry: TreeEntry, writer: CommitWriter, directory: Path) -> None:
    if entry.kind == "link":
        target = os.fsencode(entry.target)
        writer.add(entry.path, LINK, len(target), (target,))
    elif entry.kind == "file":
        mode = EXECUTABLE if entry.mode & stat.S_IXUSR else FILE
        with os.fdopen(tree.open(entry.path), "rb", buffering=0) as file:
            writer.add(entry.path, mode, entry.size, iter(lambda: file.read(_CHUNK), b""))
    else:
        raise InputError(f"{directory}: {printable(entry.path)!r} ({entry.kind}) is neither a file nor a link")


# --- the cache ---------------------------------------------------------------------------------------------------


@contextmanager
def _fetched(source: Source, commit: str, cache: Path | None, nearby: Path, deadline: Deadline) -> Iterator[Git]:
    """A bare repository with the commit and its tree; for a plain directory, a temporary one in ``nearby``."""
    if source.plain:
        assert source.path is not None
        with tempfile.TemporaryDirectory(prefix="source-", dir=nearby) as scratch:
            git = Git(Path(scratch))
            result = _import_directory(git, source.path, deadline)
            if result != commit:
                raise InputError(
                    f"the content of {source.path} has changed: task.yaml pins commit {commit}, "
                    f"but the directory is now {result}",
                    remedy="Run `agentbench tasks pin TASK_DIR` if the change is intended, or restore the directory.",
                )
            yield git
        return
    git, history = Git(source.cached(cache)), Git(source.cached(cache, HISTORY))
    if not _has(git, commit, deadline):
        if _has(history, commit, deadline) and _is_complete(history, commit, deadline):
            git = history
        else:
            with locked(git, deadline):
                if not _has(git, commit, deadline):
                    _fetch(git, source, commit, deadline)
    yield git


def _has(git: Git, commit: str, deadline: Deadline) -> bool:
    return git.git_dir.is_dir() and git.resolve(f"{commit}^{{commit}}", deadline) == commit


def _is_complete(git: Git, commit: str, deadline: Deadline) -> bool:
    """Whether all files of the commit are there, even if it came with a fetch that failed."""
    try:
        git.run("rev-list", "--objects", "--no-walk", "--quiet", commit, deadline=deadline)
    except GitFailedError:
        return False
    return True


def _fetch(git: Git, source: Source, commit: str, deadline: Deadline) -> None:
    """Fetch the commit into the cache: a whole bundle; else that commit alone if the server can, or everything."""
    to_commit = f"{commit}:refs/commits/{commit}"
    attempts: list[Callable[[], object]] = [
        lambda: fetch(git, source, to_commit, options=("--depth=1",), deadline=deadline),
        lambda: fetch(git, source, "+refs/*:refs/fetched/*", deadline=deadline),
    ]
    if source.bundle:
        attempts = [lambda: git.run("bundle", "unbundle", source.remote, deadline=deadline)]
    for attempt in attempts:
        try:
            attempt()
        except GitFailedError as error:
            if not any(words in error.stderr for words in _NO_SUCH_COMMIT):
                raise unreachable(source, error) from None
        if _has(git, commit, deadline):
            return
    raise InputError(
        f"{source.name} has no commit {commit}",
        remedy="Check repo.commit: it must be the full SHA of a commit (not a tag) reachable from a branch or tag.",
    )
