"""The whole history of a repository is fetched into a repository of ours, again and again, from any kind of source."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

from agentbench_core.errors import AgentBenchError, DeadlineExceeded, InputError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.workspace.history import History, fetch_history
from agentbench_core.workspace.repos import checkout

RunGit = Callable[..., str]


@pytest.fixture
def origin(tmp_path: Path, git: RunGit) -> Path:
    """A repository with two commits, a tag, and a branch with a third commit."""
    path = tmp_path / "origin"
    path.mkdir()
    git(path, "init", "-q")
    change(git, path, "1")
    change(git, path, "2")
    git(path, "tag", "-a", "v1.0", "-m", "annotated")
    git(path, "checkout", "-qb", "side")
    change(git, path, "3")
    git(path, "checkout", "-q", "main")
    return path


def change(git: RunGit, path: Path, content: str) -> str:
    """Commit a file with this content; return the commit."""
    (path / "f").write_text(content)
    git(path, "add", "f")
    git(path, "commit", "-qm", content)
    return git(path, "rev-parse", "HEAD").strip()


def fetched(tmp_path: Path, url: str = "origin", deadline: Deadline | None = None) -> History:
    return fetch_history(url, beside=tmp_path, deadline=deadline or Deadline(60), cache=tmp_path / "cache")


def subjects(history: History, *revisions: str) -> list[str]:
    options = ("--format=%s", "--end-of-options", *(revisions or (history.head,)))
    return history.git.run("log", *options, deadline=Deadline(60)).decode().split()


def refusal(tmp_path: Path, url: str, kind: type[AgentBenchError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        fetched(tmp_path, url)
    return str(caught.value)


# --- what is fetched ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["relative", "absolute", "bare", "file", "bundle", "worktree"])
def test_kinds_of_sources(kind: str, origin: Path, tmp_path: Path, git: RunGit) -> None:
    """All branches and tags; HEAD is the current branch, and the URL is absolute."""
    url, path, current = "origin", origin, "main"
    if kind == "absolute":
        url = str(origin)
    elif kind == "file":
        url = origin.as_uri()
    elif kind == "bare":
        git(tmp_path, "clone", "-q", "--mirror", "origin", "bare.git")
        url, path = "bare.git", tmp_path / "bare.git"
    elif kind == "bundle":
        git(origin, "bundle", "create", "-q", "../code.bundle", "--all")
        url, path = "code.bundle", tmp_path / "code.bundle"
    elif kind == "worktree":
        git(origin, "worktree", "add", "-q", "../tree", "side")
        url, path, current = "tree", tmp_path / "tree", "side"
    history = fetched(tmp_path, url)
    assert history.head == git(origin, "rev-parse", current).strip()
    assert history.url == str(path)
    names = history.git.run("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", deadline=Deadline(60))
    assert names.decode().split() == ["refs/heads/main", "refs/heads/side", "refs/tags/v1.0"]
    assert subjects(history, "refs/heads/side") == ["3", "2", "1"]


def test_the_current_branch_of_a_local_repository(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """HEAD follows the user's branch, or a detached commit."""
    git(origin, "checkout", "-q", "side")
    assert subjects(fetched(tmp_path)) == ["3", "2", "1"]
    git(origin, "checkout", "-q", "--detach", "HEAD~2")
    assert subjects(fetched(tmp_path)) == ["1"]


def test_a_bundle_of_one_branch(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """It has no HEAD, so that its branch is used; a changed bundle is read again."""
    git(origin, "bundle", "create", "-q", "../b", "main")
    assert subjects(fetched(tmp_path, "b")) == ["2", "1"]
    change(git, origin, "4")
    git(origin, "bundle", "create", "-q", "../b", "main")
    assert subjects(fetched(tmp_path, "b")) == ["4", "2", "1"]


def test_odd_paths_are_usable_in_a_task(origin: Path, tmp_path: Path) -> None:
    """A path that looks like an address is written as a file URL, which a checkout accepts."""
    odd = tmp_path / "a::b é"
    origin.rename(odd)
    history = fetch_history(".", beside=odd, deadline=Deadline(60), cache=tmp_path / "cache")
    into = tmp_path / "workspace"
    repo = Repo(url=history.url, commit=history.head)
    checkout(repo, beside=tmp_path, into=into, deadline=Deadline(60), cache=tmp_path / "elsewhere")
    assert (into / "f").read_text() == "2"


# --- again and again ---------------------------------------------------------------------------------------------


def test_only_what_is_new_is_fetched(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """A second call adds nothing if nothing has changed, and one small pack otherwise."""
    first = fetched(tmp_path)
    packs = set(first.git.git_dir.glob("objects/pack/*.pack"))
    assert fetched(tmp_path).head == first.head
    assert set(first.git.git_dir.glob("objects/pack/*.pack")) == packs
    change(git, origin, "4")
    second = fetched(tmp_path)
    assert subjects(second) == ["4", "2", "1"]
    (new,) = set(first.git.git_dir.glob("objects/pack/*.pack")) - packs
    objects = second.git.run("show-index", stdin=new.with_suffix(".idx").read_bytes(), deadline=Deadline(60))
    assert len(objects.splitlines()) == 3  # commit, tree, blob


def test_branches_that_were_changed_or_deleted(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """Their earlier commits can still be checked out; a branch may become a directory of branches."""
    old = git(origin, "rev-parse", "side").strip()
    fetched(tmp_path)
    git(origin, "checkout", "-q", "side")
    git(origin, "reset", "-q", "--hard", "HEAD~2")
    assert subjects(fetched(tmp_path)) == ["1"]
    git(origin, "checkout", "-q", "main")
    git(origin, "branch", "-qm", "side", "side/new")
    git(origin, "tag", "-d", "v1.0")
    history = fetched(tmp_path)
    names = history.git.run(
        "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", deadline=Deadline(60)
    )
    assert names.decode().split() == ["main", "side/new"]
    shutil.rmtree(origin / ".git/objects")
    (origin / ".git/objects").mkdir()
    checkout(
        Repo(url="origin", commit=old),
        beside=tmp_path,
        into=tmp_path / "workspace",
        deadline=Deadline(60),
        cache=tmp_path / "cache",
    )
    assert (tmp_path / "workspace/f").read_text() == "3"


def test_a_history_that_lacks_files_is_not_used(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """A fetch that failed may leave a commit without its files; a checkout then uses the source."""
    history = fetched(tmp_path)
    (pack,) = history.git.git_dir.glob("objects/pack/*.pack")
    data = pack.read_bytes()
    for path in pack.parent.iterdir():
        path.unlink()
    git(history.git.git_dir, "unpack-objects", "-q", stdin=data.decode("utf-8", "surrogateescape"))
    blob = git(origin, "rev-parse", f"{history.head}:f").strip()
    (history.git.git_dir / "objects" / blob[:2] / blob[2:]).unlink()
    into = tmp_path / "workspace"
    repo = Repo(url="origin", commit=history.head)
    checkout(repo, beside=tmp_path, into=into, deadline=Deadline(60), cache=tmp_path / "cache")
    assert (into / "f").read_text() == "2"


# --- several processes, and killed ones --------------------------------------------------------------------------


FETCH = """
import sys
from pathlib import Path
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.history import fetch_history
url, beside = sys.argv[1:]
print(fetch_history(url, beside=Path(beside), deadline=Deadline(60), cache=Path(beside) / "cache").head)
"""


def start(url: str, tmp_path: Path, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FETCH, url, str(tmp_path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})


def test_two_processes_at_once(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """One waits for the other, and both have the history."""
    processes = [start("origin", tmp_path) for _ in range(2)]
    head = git(origin, "rev-parse", "HEAD")
    assert [process.communicate()[0] for process in processes] == [head, head]
    assert [process.returncode for process in processes] == [0, 0]


def test_the_lock_is_waited_for_no_longer_than_the_deadline(origin: Path, tmp_path: Path) -> None:
    """A fetch of another process that hangs does not block beyond the deadline."""
    history = fetched(tmp_path)
    with filelock.FileLock(history.git.git_dir.with_suffix(".lock")), pytest.raises(DeadlineExceeded):
        fetched(tmp_path, deadline=Deadline(0.3))


STALL = """
import os, signal, subprocess, sys
from pathlib import Path
if "-G" in sys.argv:  # git tries which options ssh has
    sys.exit()
server = subprocess.Popen(sys.argv[-1], shell=True, stdout=subprocess.PIPE)
left = int(os.environ.get("STALL_AFTER", sys.maxsize))
while data := os.read(server.stdout.fileno(), min(left, 1 << 16)):
    os.write(1, data)
    left -= len(data)
    if not left:
        Path("reached").write_text(str(os.getpgrp()))  # in the cache, where git runs
        signal.pause()
"""
"""An ssh command whose server stops after some bytes."""


@pytest.mark.parametrize("after", [100, 200_000])
def test_killed_in_the_middle_of_a_fetch(
    after: int, origin: Path, tmp_path: Path, git: RunGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G12: the next call works, even while git of the killed process still runs."""
    (origin / "big").write_bytes(os.urandom(400_000))
    git(origin, "add", "big")
    head = change(git, origin, "4")
    (tmp_path / "connect").write_text(STALL)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{sys.executable} {tmp_path}/connect")
    url = f"ssh://code.invalid{origin}"
    process = start(url, tmp_path, STALL_AFTER=str(after))
    group = int(written(tmp_path, "reached").read_text())
    try:
        if after > 1000:
            written(tmp_path, "tmp_pack_*")  # git writes what has arrived
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert fetched(tmp_path, url).head == head
    finally:
        os.killpg(group, signal.SIGKILL)  # git of the killed process, and its server
        process.communicate()
    again = fetched(tmp_path, url)
    assert subjects(again) == ["4", "2", "1"]
    assert not [*again.git.git_dir.glob("objects/pack/tmp_*"), *again.git.git_dir.rglob("*.lock")]


def written(directory: Path, pattern: str) -> Path:
    """Wait for a file that another process writes."""
    deadline = Deadline(60)
    while not (found := [path for path in directory.rglob(pattern) if path.stat().st_size]):
        deadline.check()
        time.sleep(0.01)
    return found[0]


# --- sources that cannot be used ---------------------------------------------------------------------------------


def test_not_a_repository(origin: Path, tmp_path: Path) -> None:
    """A directory, a file, nothing, a broken repository, an address of another kind."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken/.git").mkdir(parents=True)
    (tmp_path / "damaged").write_bytes(b"# v2 git bundle\noops")
    for name in ("plain", "file", "missing", "broken", "damaged", "ext::sh -c touch% ran", "http://localhost/x"):
        message = refusal(tmp_path, name)
        assert message.startswith("NOT_A_REPOSITORY: "), message
        assert name in message
    assert not (tmp_path / "ran").exists()


def test_a_directory_inside_a_repository(origin: Path, tmp_path: Path) -> None:
    """The message names the repository."""
    (origin / "src").mkdir()
    message = refusal(tmp_path, "origin/src")
    assert message.startswith("NOT_A_REPOSITORY: ")
    assert f"use {origin}." in message


def test_a_shallow_clone(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """Refused, with the way to complete it; then it is used."""
    git(tmp_path, "clone", "-q", "--depth=1", origin.as_uri(), "shallow")
    message = refusal(tmp_path, "shallow")
    assert message.startswith("SHALLOW_CLONE: ")
    assert "git fetch --unshallow" in message
    git(tmp_path / "shallow", "fetch", "-q", "--unshallow")
    assert subjects(fetched(tmp_path, "shallow")) == ["2", "1"]


def test_a_repository_that_was_replaced_by_a_shallow_clone(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """What was fetched before is not taken for its history."""
    fetched(tmp_path)
    change(git, origin, "4")
    head = change(git, origin, "5")
    git(tmp_path, "clone", "-q", "--depth=1", origin.as_uri(), "shallow")
    origin.rename(tmp_path / "elsewhere")
    (tmp_path / "shallow").rename(origin)
    assert refusal(tmp_path, "origin").startswith("SHALLOW_CLONE: ")
    git(origin, "fetch", "-q", "--unshallow", str(tmp_path / "elsewhere"))
    assert fetched(tmp_path).head == head


@pytest.mark.parametrize("kind", ["prerequisite", "shallow"])
def test_a_bundle_with_a_part_of_the_history(kind: str, origin: Path, tmp_path: Path, git: RunGit) -> None:
    """Like a shallow clone."""
    if kind == "shallow":
        git(tmp_path, "clone", "-q", "--depth=1", origin.as_uri(), "shallow")
        git(tmp_path / "shallow", "bundle", "create", "-q", "../b", "HEAD")
    else:
        git(origin, "bundle", "create", "-q", "../b", "HEAD", "^HEAD~1")
    assert refusal(tmp_path, "b").startswith("SHALLOW_CLONE: the bundle ")


def test_a_repository_without_commits(tmp_path: Path, git: RunGit) -> None:
    """Refused."""
    git(tmp_path, "init", "-q", "empty")
    assert refusal(tmp_path, "empty").startswith("EMPTY_REPOSITORY: empty has no commits")


def test_a_repository_without_a_current_branch(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """It is not clear which of the branches is meant."""
    git(origin, "symbolic-ref", "HEAD", "refs/heads/unborn")
    message = refusal(tmp_path, "origin")
    assert message.startswith("NO_HEAD: origin has 2 branches, but no current branch")
    assert "Check out" in message
    git(origin, "bundle", "create", "-q", "../b", "main", "side")
    assert "--all" in refusal(tmp_path, "b")


def test_a_repository_of_another_user(origin: Path, tmp_path: Path) -> None:
    """G05: git's ownership check stays on."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (origin, origin / ".git"):
        os.chown(path, 12345, 12345)
    assert "belongs to another user" in refusal(tmp_path, "origin")


# --- hostile sources ---------------------------------------------------------------------------------------------


def hostile(origin: Path, git: RunGit) -> Path:
    """Let everything in a repository run a program; return the file that the program creates."""
    ran, program = origin.parent / "ran", origin / ".git/evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    hooks = origin / ".git/evil-hooks"
    hooks.mkdir()
    for hook in ("reference-transaction", "post-checkout", "pre-receive", "post-upload-pack", "proc-receive", "update"):
        (hooks / hook).symlink_to(program)
    text = (
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {hooks}\n\tsshCommand = {program}\n\tpager = {program}\n"
        f"\taskPass = {program}\n\tgitProxy = {program}\n\talternateRefsCommand = {program}\n"
        f"[uploadpack]\n\tpackObjectsHook = {program}\n[credential]\n\thelper = !{program}\n"
        f'[filter "x"]\n\tclean = {program}\n\tsmudge = {program}\n[diff]\n\texternal = {program}\n'
        f'[diff "x"]\n\ttextconv = {program}\n[alias]\n\tupload-pack = !{program}\n\tpack-objects = !{program}\n'
        f'[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n[gpg]\n\tprogram = {program}\n'
        f'[remote "origin"]\n\turl = ext::{program}\n\tuploadpack = {program}\n\tpromisor = true\n'
        f'[submodule "x"]\n\turl = ext::{program}\n\tactive = true\n\tupdate = !{program}\n[gc]\n\tauto = 1\n'
    )
    config = origin / ".git/config"
    (origin / ".git/included").write_text(text)
    (origin / ".git/config.worktree").write_text(text)
    config.write_text(
        config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        + f"[extensions]\n\tworktreeConfig = true\n\tpartialClone = origin\n[include]\n\tpath = included\n{text}"
    )
    (origin / ".git/info").mkdir(exist_ok=True)
    (origin / ".git/info/attributes").write_text("* filter=x diff=x\n")
    return ran


def test_fetching_runs_no_program_of_the_source(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """G07, G09, M01: hooks, filters, submodules and configuration of a source, of its worktree, or included."""
    (origin / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ext::touch ran\n')
    (origin / ".gitattributes").write_text("* filter=x diff=x\n")
    git(origin, "add", ".")
    git(origin, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},x")
    change(git, origin, "4")
    ran = hostile(origin, git)
    assert subjects(fetched(tmp_path)) == ["4", "2", "1"]
    assert subjects(fetched(tmp_path)) == ["4", "2", "1"]
    assert not ran.exists()


def test_a_partial_clone_is_refused(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """G07, M01: a source that lacks objects does not fetch them, which could run its configuration."""
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", origin.as_uri(), "partial")
    message = refusal(tmp_path, "partial")
    assert message.startswith("PARTIAL_CLONE: partial ")
    assert "--filter" in message
    ran = hostile(tmp_path / "partial", git)
    assert refusal(tmp_path, "partial").startswith("PARTIAL_CLONE: ")
    assert not ran.exists()


def test_objects_of_another_repository(origin: Path, tmp_path: Path, git: RunGit) -> None:
    """G08: alternates of a source are followed by git's server only; our repository is complete without them."""
    git(tmp_path, "clone", "-q", "--shared", "origin", "shared")
    history = fetched(tmp_path, "shared")
    shutil.rmtree(origin)
    shutil.rmtree(tmp_path / "shared")
    assert subjects(history) == ["2", "1"]
    history.git.run("fsck", "--full", "--strict", deadline=Deadline(60))
    assert not (history.git.git_dir / "objects/info/alternates").exists()
