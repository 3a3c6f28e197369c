"""The whole history of a repository, fetched into a bare repository in the cache.

Git runs only there: nothing in the source is configuration for it. Each call fetches everything new. Objects are never
removed, so that commits of branches that were changed or deleted remain available.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.fetching import fetch, locked
from agentbench_core.workspace.git import Git, GitFailedError
from agentbench_core.workspace.sources import HISTORY, Source, locate, unreachable

_HEAD = "refs/agentbench/head"
_BRANCHES_AND_TAGS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


@attrs.frozen
class History:
    """All branches and tags of a repository."""

    git: Git  #: the bare repository that has them
    head: str  #: full SHA of the commit that HEAD refers to; in a local repository, of the current branch
    url: str  #: the source, to be written into task.yaml: an absolute path, or a URL without credentials


def fetch_history(url: str, *, beside: Path, deadline: Deadline, cache: Path | None = None) -> History:
    """Fetch all branches and tags, and HEAD, with their whole history; after the first time, only new objects.

    Args:
        url: https, ssh or file URL, or a path to a repository or bundle.
        beside: the base of relative paths.
        deadline: limits waiting for the lock, and git.
        cache: the directory of the bare repositories; default: the user's cache directory.

    Raises:
        InputError: the source cannot be used. The message starts with a code: ``NOT_A_REPOSITORY``,
            ``EMPTY_REPOSITORY``, ``NO_HEAD``, ``SHALLOW_CLONE`` or ``PARTIAL_CLONE``; or it belongs to another user.
        UnavailableError: git is missing, or the repository cannot be reached.
        DeadlineExceeded: the deadline has passed.
    """
    source = locate(url, beside, label="NOT_A_REPOSITORY:")
    if source.plain:
        raise _plain(source)
    git = Git(source.cached(cache, HISTORY))
    with locked(git, deadline):
        return History(git, _update(git, source, deadline), source.public_url)


def _update(git: Git, source: Source, deadline: Deadline) -> str:
    """Fetch, and return the commit of HEAD."""
    git.run("update-ref", "-d", _HEAD, deadline=deadline)  # so that it exists afterwards only if it was fetched
    try:
        fetch(git, source, f"+HEAD:{_HEAD}", *_BRANCHES_AND_TAGS, options=("--prune",), deadline=deadline)
    except GitFailedError as error:
        if "couldn't find remote ref HEAD" not in error.stderr:
            raise _failed(source, error) from None
        return _only_branch(git, source, deadline)
    head = git.resolve(f"{_HEAD}^{{commit}}", deadline)
    if head is None:  # git has rejected it with a warning
        raise _shallow(source)
    return head


def _only_branch(git: Git, source: Source, deadline: Deadline) -> str:
    """The commit of the only branch of a source without HEAD, such as a bundle of one branch."""
    try:
        fetch(git, source, *_BRANCHES_AND_TAGS, options=("--prune",), deadline=deadline)
    except GitFailedError as error:
        raise _failed(source, error) from None
    branches = git.run("for-each-ref", "--format=%(objectname)", "refs/heads", deadline=deadline).decode().split()
    if len(branches) == 1:
        return branches[0]
    if not branches and source.bundle:  # git reads a damaged one as an empty one
        raise InputError(f"NOT_A_REPOSITORY: the bundle {source.path} is damaged or has no branches")
    if not branches:
        raise InputError(f"EMPTY_REPOSITORY: {source.name} has no commits on any branch")
    remedy = "Check out the branch to use."
    if source.bundle:
        remedy = "Create the bundle with `git bundle create FILE --all`, which includes HEAD."
    raise InputError(f"NO_HEAD: {source.name} has {len(branches)} branches, but no current branch", remedy=remedy)


# --- errors ------------------------------------------------------------------------------------------------------


def _failed(source: Source, error: GitFailedError) -> InputError | UnavailableError:
    if "promisor remote" in error.stderr:
        return InputError(
            f"PARTIAL_CLONE: {source.name} is a partial clone: some objects of its history are missing",
            remedy="Use the URL of the repository that it was cloned from, or a clone made without `--filter`.",
        )
    if "prerequisite commits" in error.stderr or "did not send all necessary objects" in error.stderr:
        return _shallow(source)
    if source.bundle or (source.path and "does not appear to be a git repository" in error.stderr):
        return InputError(f"NOT_A_REPOSITORY: {unreachable(source, error).message}")
    return unreachable(source, error)


def _shallow(source: Source) -> InputError:
    if source.bundle:
        return InputError(
            f"SHALLOW_CLONE: the bundle {source.path} contains only part of the history",
            remedy="Create it with `git bundle create FILE --all` in a clone that has the whole history.",
        )
    return InputError(
        f"SHALLOW_CLONE: {source.name} contains only part of its history",
        remedy="Run `git fetch --unshallow` there, or use the repository that it was cloned from.",
    )


def _plain(source: Source) -> InputError:
    assert source.path is not None
    around = next((parent for parent in source.path.parents if (parent / ".git").exists()), None)
    return InputError(
        f"NOT_A_REPOSITORY: {source.path} is a directory without a git repository",
        remedy=f"It is inside a repository: use {around}." if around else "Use the directory that contains `.git`.",
    )
