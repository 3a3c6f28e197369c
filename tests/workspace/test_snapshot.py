from __future__ import annotations

import hashlib
import os
import re
import resource
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.errors import DeadlineExceeded, PathEscapeError, SandboxError, ToolError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Change
from agentbench_core.workspace import listing, snapshot
from agentbench_core.workspace.snapshot import Snapshots
from agentbench_core.workspace.tree import Tree, fork

RunGit = Callable[..., str]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "base"
    for name in ("src/a.py", "src/b.py", "run.sh", "docs/x.md", ".git/config"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\nsecond\n")
    (root / "link").symlink_to("src/a.py")
    return root


@pytest.fixture
def work(base: Path, tmp_path: Path) -> Path:
    fork(base, tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def snapshots(tmp_path: Path, deadline: Deadline) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", deadline)


def kinds(changes: tuple[Change, ...]) -> dict[str, str]:
    return {change.path: change.kind for change in changes}


def test_nothing_changed(snapshots: Snapshots, base: Path, work: Path) -> None:
    """Equal trees have equal ids; .git of the workspace is ignored."""
    (work / ".git/config").write_text("changed")
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    assert (frozen.changes, frozen.oddities) == ((), ())
    assert frozen.snapshot.tree == taken.tree
    assert snapshots.diff(taken, frozen.snapshot, ()) == b""


def test_changes(snapshots: Snapshots, base: Path, work: Path) -> None:
    """Files may be added, changed, deleted, made executable and replaced by another type."""
    (work / "new\n\udcff").write_bytes(b"\0\xff")
    (work / "src/a.py").write_text("changed\n")
    (work / "src/b.py").unlink()
    (work / "run.sh").chmod(0o755)
    (work / "docs/x.md").unlink()
    (work / "docs/x.md").symlink_to("/etc/passwd")
    (work / "link").unlink()
    (work / "link").mkdir()
    (work / "link/file").write_text("x")
    frozen = snapshots.freeze(snapshots.take(base), work)
    assert kinds(frozen.changes) == {
        "docs/x.md": "modified",
        "link": "deleted",
        "link/file": "added",
        "new\n\udcff": "added",
        "run.sh": "modified",
        "src/a.py": "modified",
        "src/b.py": "deleted",
    }
    by_path = {change.path: change for change in frozen.changes}
    assert (by_path["run.sh"].old_mode, by_path["run.sh"].new_mode) == ("100644", "100755")
    assert by_path["run.sh"].old_blob == by_path["run.sh"].new_blob
    assert (by_path["docs/x.md"].old_mode, by_path["docs/x.md"].new_mode) == ("100644", "120000")
    assert (by_path["link"].old_mode, by_path["link"].new_mode, by_path["link"].new_blob) == ("120000", "", "")


def test_files_that_git_would_hide_are_recorded(snapshots: Snapshots, base: Path, work: Path, git: RunGit) -> None:
    """G03, G04: nested repositories, ignored files and unconverted bytes are all recorded."""
    (work / "src/a.py").write_text("hidden by a nested repository\n")
    git(work / "src", "init")
    git(work / "src", "add", "a.py")
    git(work / "src", "commit", "-m", "x")
    (work / ".gitignore").write_text("*.secret\n")
    (work / "x.secret").write_text("ignored\n")
    (work / ".gitattributes").write_text("*.txt working-tree-encoding=UTF-16 ident\n* eol=crlf text filter=evil\n")
    (work / "x.txt").write_bytes(b"$Id$\r\n\xff")
    base_taken = snapshots.take(base)
    frozen = snapshots.freeze(base_taken, work)
    assert set(kinds(frozen.changes)) == {".gitattributes", ".gitignore", "src/a.py", "x.secret", "x.txt"}
    assert frozen.oddities == ("nested repository: src/.git",)
    patch = snapshots.diff(base_taken, frozen.snapshot, frozen.changes)
    assert b"+hidden by a nested repository\n" in patch
    assert b"+$Id$\r\n+\xff" in patch


def test_snapshots_run_no_program_of_the_workspace(
    snapshots: Snapshots, base: Path, work: Path, tmp_path: Path, git: RunGit
) -> None:
    """G01, G10: hostile configuration, attributes and hooks run nothing, at the top or in a nested repository."""
    ran = tmp_path / "ran"
    evil = work / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    config = (
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {evil}\n\thooksPath = {work}\n"
        f'[filter "e"]\n\tclean = {evil}\n\tsmudge = {evil}\n[diff]\n\texternal = {evil}\n'
        f'[diff "e"]\n\ttextconv = {evil}\n\tcommand = {evil}\n'
    )
    (work / ".gitattributes").write_text("* filter=e diff=e\n")
    (work / ".git/config").unlink()
    for nested in (work, work / "src"):
        git(nested, "init", "-q")
        (nested / ".git/config").write_text(config)
        (nested / "a.py").write_text("changed\n")
    ran.unlink(missing_ok=True)
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    assert b"+changed" in snapshots.diff(taken, frozen.snapshot, frozen.changes)
    assert not ran.exists()


def test_oddities(snapshots: Snapshots, base: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G10, H04, H06, H08, H09, H11, H12: what git cannot store is reported."""
    monkeypatch.setattr(snapshot, "FILE_SIZE_MAX", 1000)
    os.mkfifo(work / "fifo")
    (work / "run.sh").chmod(0o4755)
    (work / "src/hard").hardlink_to(work / "src/a.py")
    (work / "sparse").touch()
    os.truncate(work / "sparse", 50 << 30)
    (work / "sub").mkdir()
    (work / "sub/.GIT").write_text("gitdir: /host")
    (work / "/".join(["d"] * 256)).mkdir(parents=True)
    monkeypatch.chdir(work)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as observer:
        observer.bind("socket")
    frozen = snapshots.freeze(snapshots.take(base), work)
    deep = "/".join(["d"] * 256)
    assert frozen.oddities == (
        f"too deep: {deep}",
        "fifo: fifo",
        "setuid or setgid: run.sh",
        "socket: socket",
        f"too large ({50 << 30} bytes): sparse",
        "hard link (2 names): src/a.py",
        "hard link (2 names): src/hard",
        "nested repository: sub/.GIT",
    )
    assert kinds(frozen.changes) == {"run.sh": "modified", "src/hard": "added"}
    assert {change.new_mode for change in frozen.changes} == {"100755", "100644"}


def test_git_file_at_the_top(snapshots: Snapshots, base: Path, work: Path) -> None:
    """G08: a .git file refers to another repository, and is reported."""
    (work / ".git/config").unlink()
    (work / ".git").rmdir()
    (work / ".git").write_text("gitdir: /host/.git")
    assert snapshots.freeze(snapshots.take(base), work).oddities == ("nested repository: .git",)


def test_existing_oddities_are_not_reported_again(snapshots: Snapshots, base: Path, work: Path) -> None:
    """Oddities that existed before the agent started are not reported again."""
    os.mkfifo(base / "fifo")
    os.mkfifo(work / "fifo")
    taken = snapshots.take(base)
    assert taken.oddities == ("fifo: fifo",)
    assert snapshots.freeze(taken, work).oddities == ()


def test_diff_of_some_changes(snapshots: Snapshots, base: Path, work: Path, git: RunGit, tmp_path: Path) -> None:
    """The patch contains only the chosen changes, and git applies it."""
    (work / "src/a.py").write_text("changed\n")
    (work / "src/b.py").unlink()
    (work / "[a-z]*").write_text("a name like a glob\n")
    (work / "data").write_bytes(os.urandom(5000))
    (work / "docs/x.md").write_text("left out\n")
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    chosen = [change for change in frozen.changes if change.path != "docs/x.md"]
    patch = snapshots.diff(taken, frozen.snapshot, chosen)
    assert b"docs/x.md" not in patch
    (tmp_path / "patch").write_bytes(patch)
    git(base, "apply", str(tmp_path / "patch"))
    (work / "docs/x.md").write_text("docs/x.md\nsecond\n")
    assert snapshots.take(base).tree == snapshots.take(work).tree


def test_diff_is_capped(snapshots: Snapshots, base: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F25: a huge diff is truncated, with its full size and what is missing; the list of changes never is."""
    monkeypatch.setattr(snapshot, "DIFF_SIZE_MAX", 1000)
    (work / "long").write_text("x\n" * 100_000)
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    cut = snapshots.diff(taken, frozen.snapshot, frozen.changes)
    monkeypatch.undo()
    whole = snapshots.diff(taken, frozen.snapshot, frozen.changes)
    last = f"# cut: 1000 of {len(whole)} bytes; sha256 of the whole: {hashlib.sha256(whole).hexdigest()}"
    assert cut == whole[:1000] + f"\n{last}\n".encode()
    with Tree(base) as tree:
        snapshots.apply(frozen.changes, tree)
    assert (base / "long").read_bytes() == (work / "long").read_bytes()


def test_restore(snapshots: Snapshots, base: Path, work: Path, tmp_path: Path) -> None:
    """Restoring all changes into another copy makes it equal."""
    (work / "src/a.py").write_text("changed\n")
    (work / "src/b.py").unlink()
    (work / "run.sh").chmod(0o755)
    (work / "new/deep").mkdir(parents=True)
    (work / "new/deep/file").write_bytes(os.urandom(3_000_000))
    (work / "link").unlink()
    (work / "link").write_text("a file now")
    (work / "docs/x.md").unlink()
    (work / "docs").rmdir()
    (work / "docs").write_text("a file where a directory was")
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    fork(base, tmp_path / "scoring")
    with Tree(tmp_path / "scoring") as tree:
        snapshots.apply(frozen.changes, tree)
        snapshots.apply([change for change in frozen.changes if change.kind == "deleted"], tree)  # already gone
    assert snapshots.take(tmp_path / "scoring").tree == frozen.snapshot.tree
    assert not (tmp_path / "scoring/link").is_symlink()


def test_restore_links(snapshots: Snapshots, base: Path, work: Path, tmp_path: Path) -> None:
    """P05, P17: links are listed, and written only on request."""
    (work / "run.sh").unlink()
    (work / "run.sh").symlink_to("/etc/passwd")
    (work / "src/a.py").write_text("changed")
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    fork(base, tmp_path / "scoring")
    with Tree(tmp_path / "scoring") as tree:
        with pytest.raises(PathEscapeError, match=r"'run\.sh' is a link"):
            snapshots.apply(frozen.changes, tree)
        assert snapshots.take(tmp_path / "scoring").tree == taken.tree
        snapshots.apply(frozen.changes, tree, links=True)
    assert snapshots.take(tmp_path / "scoring").tree == frozen.snapshot.tree


def test_restore_refuses_links_in_the_way(snapshots: Snapshots, base: Path, work: Path, tmp_path: Path) -> None:
    """P06: files below a directory that is a link are not written."""
    (work / "docs/x.md").write_text("changed")
    (work / "src/b.py").unlink()
    frozen = snapshots.freeze(snapshots.take(base), work)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("outside")
    fork(base, tmp_path / "scoring")
    (tmp_path / "scoring/docs/x.md").unlink()
    (tmp_path / "scoring/docs").rmdir()
    (tmp_path / "scoring/docs").symlink_to("../outside")
    with Tree(tmp_path / "scoring") as tree, pytest.raises(PathEscapeError):
        snapshots.apply(frozen.changes, tree)
    assert (tmp_path / "outside/x.md").read_text() == "outside"


def test_restore_refuses_changes_that_do_not_fit(snapshots: Snapshots, base: Path, work: Path, tmp_path: Path) -> None:
    """A selection of changes that does not fit the tree is an error."""
    (work / "run.sh").unlink()
    (work / "run.sh").mkdir()
    (work / "run.sh/inside").write_text("x")
    frozen = snapshots.freeze(snapshots.take(base), work)
    fork(base, tmp_path / "scoring")
    added = [change for change in frozen.changes if change.kind == "added"]
    with Tree(tmp_path / "scoring") as tree, pytest.raises(ToolError, match="is a file, not a directory"):
        snapshots.apply(added, tree)


def test_threads(snapshots: Snapshots, base: Path, tmp_path: Path) -> None:
    """Threads may freeze workspaces in one repository concurrently."""
    taken = snapshots.take(base)
    results: dict[int, tuple[bytes, bytes]] = {}

    def attempt(number: int) -> None:
        work = tmp_path / f"work{number}"
        fork(base, work)
        (work / "same").write_text("same everywhere\n")
        (work / "src/a.py").write_text(f"{number}\n")
        frozen = snapshots.freeze(taken, work)
        patch = snapshots.diff(taken, frozen.snapshot, frozen.changes)
        with Tree(work) as tree:
            snapshots.apply(frozen.changes, tree)
            results[number] = patch, tree.read("src/a.py", limit=99)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for number, (patch, content) in results.items():
        assert f"+{number}\n".encode() in patch
        assert content == f"{number}\n".encode()


def test_a_second_object_on_the_same_directory(snapshots: Snapshots, base: Path, work: Path, tmp_path: Path) -> None:
    """An existing repository is reused, with the same ids."""
    taken = snapshots.take(base)
    again = Snapshots(tmp_path / "snapshots", Deadline(60))
    assert again.take(base).tree == taken.tree
    (work / "x").write_text("x")
    assert kinds(again.freeze(taken, work).changes) == {"x": "added"}


def test_memory_stays_flat(snapshots: Snapshots, tmp_path: Path) -> None:
    """F25: large files are streamed."""
    (tmp_path / "big").mkdir()
    (tmp_path / "big/file").write_bytes(b"x" * (40 << 20))
    tracemalloc.start()
    try:
        snapshots.take(tmp_path / "big")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_removed_or_replaced_workspace_is_an_error(
    snapshots: Snapshots, base: Path, work: Path, tmp_path: Path
) -> None:
    """H01, H10: if an agent removes its workspace or replaces it with a link, the agent is at fault."""
    taken = snapshots.take(base)
    work.rename(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="cannot be opened"):
        snapshots.freeze(taken, work)
    work.symlink_to("/")
    with pytest.raises(ToolError, match="cannot be opened"):
        snapshots.freeze(taken, work)


def test_endless_bytes(snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: many sparse files, each within its own limit, are refused for their total size."""
    monkeypatch.setattr(listing, "TREE_SIZE_MAX", 100 << 20)
    (tmp_path / "sparse").mkdir()
    for number in range(10):
        (tmp_path / "sparse" / str(number)).touch()
        os.truncate(tmp_path / "sparse" / str(number), 30 << 20)
    began = time.process_time()
    with pytest.raises(ToolError, match="total more than") as caught:
        snapshots.take(tmp_path / "sparse")
    assert caught.value.error_type == "too_large"
    assert time.process_time() - began < 10


def test_a_large_file_changed_in_its_place(
    snapshots: Snapshots, base: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G10: a file too large to store is reported with its digest, so that changes are detected."""
    monkeypatch.setattr(snapshot, "FILE_SIZE_MAX", 1000)
    for root in (base, work):
        (root / "large").write_bytes(bytes(2000))
    taken = snapshots.take(base)
    assert snapshots.freeze(taken, work).oddities == ()
    times = (work / "large").stat()
    (work / "large").write_bytes(b"x" + bytes(1999))
    os.utime(work / "large", ns=(times.st_atime_ns, times.st_mtime_ns))
    (odd,) = snapshots.freeze(taken, work).oddities
    assert re.fullmatch(r"too large \(2000 bytes, sha1 [0-9a-f]{40}\): large", odd)


def test_names_that_other_systems_treat_as_git(snapshots: Snapshots, base: Path, work: Path) -> None:
    """G10: names that git may refuse are recorded; otherwise an agent could prevent its own verdict."""
    names = (".git::$INDEX_ALLOCATION", "a\\.git", ".gitmodules\n", "COM1", "\x1b[31m\u202e", "-rf", '"', "\\")
    for name in names:
        (work / name).write_text(name)
    taken = snapshots.take(base)
    frozen = snapshots.freeze(taken, work)
    assert kinds(frozen.changes) == dict.fromkeys(names, "added")
    assert snapshots.diff(taken, frozen.snapshot, frozen.changes).count(b"new file mode") == len(names)
    with Tree(base) as tree:
        snapshots.apply(frozen.changes, tree)
    assert snapshots.take(base).tree == frozen.snapshot.tree


def test_empty_workspace(snapshots: Snapshots, base: Path, tmp_path: Path) -> None:
    """An empty workspace is a deletion of each file."""
    (tmp_path / "empty").mkdir()
    frozen = snapshots.freeze(snapshots.take(base), tmp_path / "empty")
    assert set(kinds(frozen.changes).values()) == {"deleted"}
    assert len(frozen.changes) == 5


def test_file_that_changes_while_it_is_read(snapshots: Snapshots, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H37: a workspace that is still written to is an infrastructure error, not a wrong snapshot."""
    monkeypatch.setattr(snapshot, "_WHOLE", 1)
    monkeypatch.setattr(snapshot, "_chunks", lambda _: iter([b"short"]))
    with pytest.raises(SandboxError, match="changed while it was being frozen"):
        snapshots.take(base)
    monkeypatch.undo()
    assert snapshots.take(base).tree


def test_deadline(tmp_path: Path, base: Path) -> None:
    """An expired deadline raises; another one can be passed."""
    snapshots = Snapshots(tmp_path / "snapshots", Deadline(0))
    with pytest.raises(DeadlineExceeded):
        snapshots.take(base)
    assert snapshots.take(base, Deadline(60)).tree


def test_no_descriptor_leaks(snapshots: Snapshots, base: Path, work: Path) -> None:
    """Repeated freezes do not leak file descriptors."""
    taken = snapshots.take(base)
    (work / "x").write_text("x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        frozen = snapshots.freeze(taken, work)
        snapshots.diff(taken, frozen.snapshot, frozen.changes)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert before < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
