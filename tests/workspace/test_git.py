"""Git runs only on our own repositories, and outside configuration has no effect on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.errors import InputError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace import git as git_module
from agentbench_core.workspace.git import Git
from agentbench_core.workspace.snapshot import Snapshots
from agentbench_core.workspace.tree import fork

RunGit = Callable[..., str]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.py").write_text("old\n")
    return tmp_path / "base"


@pytest.fixture
def trap(tmp_path: Path) -> tuple[Path, Path]:
    """A script, and the file that it creates when it runs."""
    script, ran = tmp_path / "trap", tmp_path / "ran"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    return script, ran


def hostile(trap: Path) -> str:
    """A git configuration that runs the trap wherever it can."""
    return (
        f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {trap.parent}\n\tpager = {trap}\n\tsshCommand = {trap}\n"
        f"\tattributesFile = {trap.parent}/attributes\n\talternateRefsCommand = {trap}\n"
        f'[filter "e"]\n\tclean = {trap}\n\tsmudge = {trap}\n[diff]\n\texternal = {trap}\n'
        f'[diff "e"]\n\ttextconv = {trap}\n\tcommand = {trap}\n[protocol "ext"]\n\tallow = always\n'
    )


def frozen_patch(directory: Path, base: Path, work: Path, deadline: Deadline) -> tuple[bytes, tuple[str, ...]]:
    """The patch of a workspace against its base, and the oddities."""
    snapshots = Snapshots(directory, deadline)
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    return snapshots.diff(taken, frozen.snapshot, frozen.changes), frozen.oddities


def test_configuration_and_variables_of_this_machine(
    base: Path, tmp_path: Path, trap: tuple[Path, Path], deadline: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G02: user configuration and inherited variables run nothing, and do not redirect git to another repository."""
    script, ran = trap
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (tmp_path / "attributes").write_text("* filter=e diff=e\n")
    for path in (home / ".gitconfig", home / ".config/git/config"):
        path.write_text(hostile(script))
    variables = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_WORK_TREE": str(base),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
        "GIT_EXTERNAL_DIFF": str(script),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.external",
        "GIT_CONFIG_VALUE_0": str(script),
        "GIT_CONFIG_PARAMETERS": f"'diff.external={script}'",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_PAGER": str(script),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    fork(base, tmp_path / "work")
    (tmp_path / "work/a.py").write_text("new\n")
    patch, _ = frozen_patch(tmp_path / "snapshots", base, tmp_path / "work", deadline)
    assert b"-old\n+new\n" in patch
    assert not ran.exists()
    assert not {"nowhere", "index", "objects", "trace"} & {path.name for path in tmp_path.iterdir()}


def test_workspace_of_another_user(base: Path, tmp_path: Path, deadline: Deadline) -> None:
    """G05: the owner of a workspace does not matter: git never runs in it, so it needs no ``safe.directory``."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    fork(base, tmp_path / "work")
    (tmp_path / "work/a.py").write_text("new\n")
    for path in (tmp_path / "work", tmp_path / "work/a.py"):
        os.chown(path, 12345, 12345)
    patch, oddities = frozen_patch(tmp_path / "snapshots", base, tmp_path / "work", deadline)
    assert b"-old\n+new\n" in patch
    assert oddities == ()


def test_bare_repository_in_a_directory(
    base: Path, tmp_path: Path, trap: tuple[Path, Path], deadline: Deadline, git: RunGit
) -> None:
    """G06: a bare repository in the tree consists of ordinary files, and its configuration has no effect."""
    script, ran = trap
    fork(base, tmp_path / "work")
    (tmp_path / "work/sub").mkdir()
    git(tmp_path / "work/sub", "init", "-q", "--bare", ".")
    (tmp_path / "work/sub/config").write_text("[core]\n\tbare = false\n\tworktree = ..\n" + hostile(script))
    (tmp_path / "work/.gitattributes").write_text("* filter=e diff=e\n")
    ran.unlink(missing_ok=True)
    patch, _ = frozen_patch(tmp_path / "snapshots", base, tmp_path / "work", deadline)
    assert b"+++ b/sub/config\n" in patch
    assert b"+++ b/sub/HEAD\n" in patch
    assert not ran.exists()


@pytest.mark.parametrize("way", ["alternates", "file", "commondir", "link"])
def test_references_to_other_repositories_are_not_followed(
    way: str, base: Path, tmp_path: Path, deadline: Deadline, git: RunGit
) -> None:
    """G08: alternates, a ``.git`` file, ``commondir`` and links to a host repository are not followed."""
    host = tmp_path / "host"
    host.mkdir()
    git(host, "init", "-q")
    (host / "secret").write_text("SECRET\n")
    git(host, "add", ".")
    git(host, "commit", "-qm", "secret")
    fork(base, tmp_path / "work")
    dot_git = tmp_path / "work/.git"
    if way == "file":
        dot_git.write_text(f"gitdir: {host}/.git\n")
    elif way == "link":
        dot_git.symlink_to(host / ".git")
    else:
        (dot_git / "objects/info").mkdir(parents=True)
        (dot_git / "HEAD").write_text("ref: refs/heads/main\n")
        name, text = ("objects/info/alternates", "/objects") if way == "alternates" else ("commondir", "")
        (dot_git / name).write_text(f"{host}/.git{text}\n")
    (tmp_path / "work/a.py").write_text("new\n")
    patch, oddities = frozen_patch(tmp_path / "snapshots", base, tmp_path / "work", deadline)
    assert patch.count(b"diff --git") == 1
    assert oddities == (("nested repository: .git",) if way in ("file", "link") else ())
    packs = b"".join(path.read_bytes() for path in (tmp_path / "snapshots").rglob("*") if path.is_file())
    assert str(host).encode() not in packs


def test_overlong_name_is_refused(tmp_path: Path, deadline: Deadline, monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: an overlong name is refused instead of buffered."""
    repository = Git(tmp_path / "repository")
    repository.create()
    with repository.commit("refs/heads/main", deadline) as writer:
        writer.add("/".join(["d" * 100] * 30), "100644", 1, (b"x",))
    monkeypatch.setattr(git_module, "_LONGEST_LINE", 2000)
    monkeypatch.setattr(git_module, "_CHUNK", 500)
    with pytest.raises(InputError, match="printed a name longer than 2000 bytes"):
        list(repository.lines("ls-tree", "-r", "-z", writer.tree, deadline=deadline))
