"""Get the pristine tree of a task: one commit, and nothing that came after it.

A workspace gets the files as raw bytes and a ``.git`` with one commit that no other repository has: no remotes,
no reflog, no tags, no later object. What a server has is kept in a bare repository per URL in the user's cache,
so that a second checkout needs no network.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
import filelock
import platformdirs

from agentbench_core.errors import InputError, ToolError, UnavailableError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.workspace.git import EXECUTABLE, FILE, LINK, SUBMODULE, Git, GitFailedError
from agentbench_core.workspace.listing import TreeEntry
from agentbench_core.workspace.paths import TOOL_CACHES, components, printable
from agentbench_core.workspace.tree import Tree, remove_tree

_LEFT_OUT = TOOL_CACHES | {".git", "__pycache__"}
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_POINTER_MAX = 1024  # bytes; the format's own limit
_BUNDLE = re.compile(rb"# v[23] git bundle\n")
_SCP_LIKE = re.compile(r"[\w.-]+@[\w.-]+:.+")
_NO_SUCH_COMMIT = ("not our ref", "unadvertised object", "couldn't find remote ref", "remote ref", "shallow")
_COMMIT_SECONDS = 300.0
_WORKSPACE_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
# The files are the blobs, byte for byte. Without this, git in the workspace would expect them converted.
_WORKSPACE_ATTRIBUTES = "* -text -ident -filter !eol !working-tree-encoding\n"


@attrs.frozen
class _Source:
    """Where a task's code comes from: a ``directory`` as it is, or something that git fetches from."""

    url: str
    path: Path | None = None
    plain: bool = False
    bundle: bool = False

    @property
    def name(self) -> str:
        """For messages: without a password."""
        return _masked(self.url)


def checkout(repo: Repo, *, beside: Path, into: Path, deadline: Deadline, cache: Path | None = None) -> None:
    """Write the tree of ``repo.commit`` into a new directory, with a ``.git`` of exactly one commit.

    Args:
        repo: URL (https, ssh, file, or a path to a repository, bundle or plain directory) and full commit SHA.
        beside: the directory of ``task.yaml``; relative paths start there.
        into: must not exist; is removed again when something fails.
        deadline: ends the waiting for the cache's lock and kills git.
        cache: where the bare repositories are kept; default: the user's cache directory.

    Raises:
        InputError: unknown commit, changed directory, submodule, Git LFS pointer, or a path that would escape.
        UnavailableError: git is missing, or the repository cannot be reached.
        DeadlineExceeded: not in time.
    """
    source = _locate(repo.url, beside)
    with _fetched(source, repo.commit, cache, into.parent, deadline) as git:
        into.mkdir(parents=True)
        try:
            _write_workspace(git, source, repo.commit, into, deadline)
        except BaseException:
            remove_tree(into)
            raise


def directory_commit(directory: Path) -> str:
    """SHA of the one commit that a plain directory becomes; what ``repo.commit`` must be for it.

    Its tree has all regular files (executable if their owner may execute them) and links, as raw bytes, without
    anything named ``.git``, ``__pycache__``, ``.pytest_cache``, ``.mypy_cache``, ``.ruff_cache`` or
    ``.DS_Store``. No parents; AgentBench <agentbench@localhost> at 946684800 +0000; message ``Source tree``.

    Raises:
        InputError: not a directory, or it holds what git cannot keep.
        UnavailableError: git is missing.
    """
    with tempfile.TemporaryDirectory(prefix="agentbench-") as scratch:
        return _import_directory(Git(Path(scratch)), directory, Deadline(_COMMIT_SECONDS))


# --- where it comes from -----------------------------------------------------------------------------------------


def _locate(url: str, beside: Path) -> _Source:
    if url.startswith(("https://", "ssh://")) or ("://" not in url and _SCP_LIKE.fullmatch(url)):
        return _Source(url)
    if url.startswith("file://"):
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    elif "://" in url or "::" in url or not url:
        raise InputError(f"repo.url {_masked(url)!r} is of no known kind", remedy="Use https, ssh, file or a path.")
    else:
        path = beside / url
    path = path.resolve()
    if path.is_file():
        with path.open("rb") as file:
            if not _BUNDLE.match(file.readline(100)):
                raise InputError(f"repo.url {url!r}: {path} is neither a directory nor a git bundle")
        return _Source(url, path, bundle=True)
    if not path.is_dir():
        raise InputError(f"repo.url {url!r}: {path} does not exist", remedy="Relative paths start at task.yaml.")
    bare = (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    return _Source(url, path, plain=not bare and not (path / ".git").exists())


def _masked(url: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]*:[^/@\s]*@", "***@", url)


# --- plain directories -------------------------------------------------------------------------------------------


def _import_directory(git: Git, directory: Path, deadline: Deadline) -> str:
    git.create()
    try:
        with Tree(directory.resolve()) as tree, git.commit("refs/heads/source", deadline) as writer:
            for entry in tree.walk():
                if _LEFT_OUT.isdisjoint(entry.path.split("/")):
                    data, mode = _content(tree, entry, directory)
                    writer.add(entry.path, mode, len(data), (data,))
    except (OSError, ToolError) as error:
        raise InputError(f"{directory} cannot be read: {error}") from None
    return writer.commit


def _content(tree: Tree, entry: TreeEntry, directory: Path) -> tuple[bytes, str]:
    if entry.kind == "link":
        return entry.target.encode("utf-8", "surrogateescape"), LINK
    if entry.kind != "file":
        raise InputError(f"{directory}: {printable(entry.path)!r} is {entry.kind}: only files and links can be kept")
    return tree.read(entry.path, limit=entry.size + 1), EXECUTABLE if entry.mode & 0o100 else FILE


# --- the cache ---------------------------------------------------------------------------------------------------


@contextmanager
def _fetched(source: _Source, commit: str, cache: Path | None, nearby: Path, deadline: Deadline) -> Iterator[Git]:
    """A bare repository that has the commit and its tree. Made ``nearby``, it goes when its caller's place goes."""
    if source.plain:
        assert source.path is not None
        with tempfile.TemporaryDirectory(prefix="source-", dir=nearby) as scratch:
            git = Git(Path(scratch))
            found = _import_directory(git, source.path, deadline)
            if found != commit:
                raise InputError(
                    f"the content of {source.path} has changed: task.yaml pins commit {commit}, "
                    f"the directory is {found}",
                    remedy="Restore the directory, or write the new SHA into repo.commit if the change is meant.",
                )
            yield git
        return
    cache = cache or platformdirs.user_cache_path("agentbench") / "repos"
    key = hashlib.sha256(str(source.path or source.url).encode()).hexdigest()
    git = Git(cache / f"{key}.git")
    if not _has(git, commit, deadline):
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(cache / f"{key}.lock", deadline):
            if not _has(git, commit, deadline):
                git.create()
                _fetch(git, source, commit, deadline)
    yield git


def _has(git: Git, commit: str, deadline: Deadline) -> bool:
    return git.git_dir.is_dir() and git.resolve(f"{commit}^{{commit}}", deadline) == commit


@contextmanager
def _locked(path: Path, deadline: Deadline) -> Iterator[None]:
    lock = filelock.FileLock(path)
    while True:
        deadline.check()
        try:
            lock.acquire(timeout=min(1.0, deadline.remaining()))
            break
        except filelock.Timeout:
            continue
    try:
        yield
    finally:
        lock.release()


def _fetch(git: Git, source: _Source, commit: str, deadline: Deadline) -> None:
    """Bring the commit into the cache: only its tree where the server lets us, everything where not."""
    remote = source.url if source.path is None else str(source.path)
    options = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    attempts: list[Callable[[], object]] = [
        lambda: git.run(*options, "--depth=1", "--", remote, f"{commit}:refs/commits/{commit}", deadline=deadline),
        lambda: git.run(*options, "--", remote, "+refs/*:refs/fetched/*", deadline=deadline),
    ]
    if source.bundle:
        attempts = [lambda: git.run("bundle", "unbundle", remote, deadline=deadline)]
    for attempt in attempts:
        try:
            attempt()
        except GitFailedError as error:
            if not any(words in error.stderr for words in _NO_SUCH_COMMIT):
                raise _unreachable(source, error) from None
        if _has(git, commit, deadline):
            return
    raise InputError(
        f"{source.name} has no commit {commit}",
        remedy="Check repo.commit: it must be the full SHA of a commit (not of a tag) that a branch or tag reaches.",
    )


def _unreachable(source: _Source, error: GitFailedError) -> UnavailableError | InputError:
    said = _masked(error.stderr.strip())
    if source.bundle:
        return InputError(f"the bundle {source.path} cannot be used: {said}")
    return UnavailableError(
        f"{source.name} cannot be fetched: {said}",
        remedy="Check the network, the URL and your access (ssh keys; git's own configuration is not read).",
    )


# --- the workspace -----------------------------------------------------------------------------------------------


def _write_workspace(git: Git, source: _Source, commit: str, into: Path, deadline: Deadline) -> None:
    tree_id = git.resolve(f"{commit}^{{tree}}", deadline)
    if tree_id is None:
        raise InputError(f"{source.name}: commit {commit} has no tree; remove {git.git_dir} and try again")
    entries = list(_entries(git, tree_id, f"{source.name} at {commit}", deadline))
    with Tree(into) as tree, closing(git.blobs([blob for _, _, blob in entries], deadline)) as blobs:
        for (path, mode, _), data in zip(entries, blobs, strict=True):
            if data.startswith(_LFS_POINTER) and len(data) < _LFS_POINTER_MAX:
                raise InputError(
                    f"{source.name} at {commit}: {printable(path)!r} is a Git LFS pointer; LFS is not supported",
                    remedy="Make a plain directory or a bundle with the real files in it.",
                )
            try:
                if mode == LINK:
                    tree.link(path, data.decode("utf-8", "surrogateescape"))
                else:
                    tree.write(path, data, executable=mode == EXECUTABLE)
            except (ToolError, ValueError) as error:
                raise InputError(f"{source.name} at {commit} cannot be written: {error}") from None
    _write_git(git, tree_id, into / ".git", deadline)


def _entries(git: Git, tree_id: str, where: str, deadline: Deadline) -> Iterator[tuple[str, str, str]]:
    """Path, mode and blob of every file; refuses what cannot be a workspace."""
    seen: set[str] = set()
    for line in git.run("ls-tree", "-r", "-z", tree_id, deadline=deadline).split(b"\0")[:-1]:
        fields, _, raw = line.partition(b"\t")
        mode, _, blob = fields.decode().split(" ")
        path = raw.decode("utf-8", "surrogateescape")
        if mode == SUBMODULE:
            raise InputError(
                f"{where}: {printable(path)!r} is a submodule; submodules are not supported",
                remedy="Make a plain directory or a bundle with its files in it.",
            )
        try:
            components(path)
        except ToolError as error:
            raise InputError(f"{where} has a path that no workspace may have: {error}") from None
        if path in seen:
            raise InputError(f"{where} has {printable(path)!r} twice")
        seen.add(path)
        yield path, mode, blob


def _write_git(git: Git, tree_id: str, git_dir: Path, deadline: Deadline) -> None:
    """Write a ``.git`` by hand: the objects of one commit, its branch and its index. Git is not started in it."""
    head = git.run("commit-tree", tree_id, "-m", "Source tree", deadline=deadline).decode().strip()
    pack = git_dir / "objects/pack"
    for directory in (pack, git_dir / "objects/info", git_dir / "refs/heads", git_dir / "refs/tags", git_dir / "info"):
        directory.mkdir(parents=True)
    git.run("pack-objects", "--quiet", "--revs", str(pack / "pack"), stdin=f"{head}\n".encode(), deadline=deadline)
    git.run("read-tree", tree_id, env={"GIT_INDEX_FILE": str(git_dir / "index")}, deadline=deadline)
    (git_dir / "config").write_text(_WORKSPACE_CONFIG)
    (git_dir / "info/attributes").write_text(_WORKSPACE_ATTRIBUTES)
    (git_dir / "refs/heads/main").write_text(f"{head}\n")
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
