from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.workspace import copying
from agentbench_core.workspace.listing import TreeEntry, list_directory
from agentbench_core.workspace.tree import fork, remove_tree


def make_deep(root: Path, depth: int) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process, to be independent of the load of the machine."""
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name in (".git/objects/aa", "a/b", "empty"):
        (root / name).mkdir(parents=True)
    (root / ".git/objects/aa/1").write_bytes(b"object")
    (root / "a/b/script").write_text("#!/bin/sh\n")
    (root / "a/b/script").chmod(0o4755)
    (root / "a/data").write_bytes(os.urandom(3_000_000))
    (root / "a/other").hardlink_to(root / "a/data")
    (root / "a/link").symlink_to("/etc/passwd")
    (root / "a/dangling").symlink_to("nowhere")
    os.mkfifo(root / "a/fifo")
    os.utime(root / "a/b/script", (1e9, 1e9))
    (root / "a").chmod(0o555)
    return root


@pytest.mark.usefixtures("way_to_open")
def test_fork(source: Path, tmp_path: Path) -> None:
    """H05, H09: everything is copied, including .git, without setuid bits and without sharing inodes."""
    target = tmp_path / "target"
    fork(source, target)
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    expected = sorted(str(path.relative_to(source)) for path in source.rglob("*"))
    assert names == [name for name in expected if name != "a/fifo"]
    for name in ("a/data", "a/other", ".git/objects/aa/1", "a/b/script"):
        copy, original = (target / name).stat(), (source / name).stat()
        assert (target / name).read_bytes() == (source / name).read_bytes()
        assert (copy.st_nlink, copy.st_ino == original.st_ino) == (1, False)
        assert copy.st_mtime_ns == original.st_mtime_ns
    assert stat.S_IMODE((target / "a/b/script").stat().st_mode) == 0o755  # H08, H09: no setuid
    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o555
    assert (target / "a/link").readlink() == Path("/etc/passwd")
    (target / ".git/objects/aa/1").write_bytes(b"poison")
    assert (source / ".git/objects/aa/1").read_bytes() == b"object"


def test_fork_sparse(tmp_path: Path) -> None:
    """H12: holes stay holes, and the data between them is copied."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/huge").open("wb") as file:
        file.seek(5 << 30)
        file.write(b"middle")
        file.truncate(50 << 30)
    fork(tmp_path / "source", tmp_path / "target")
    copy = tmp_path / "target/huge"
    assert (copy.stat().st_size, copy.stat().st_blocks < 10_000) == (50 << 30, True)
    with copy.open("rb") as file:
        file.seek(5 << 30)
        assert file.read(7) == b"middle\0"


def test_fork_deep(tmp_path: Path) -> None:
    """H11: depth costs about as much as breadth; 3 000 nested directories used to take twenty seconds."""
    (tmp_path / "source").mkdir()
    make_deep(tmp_path / "source", 3000)
    (tmp_path / "wide").mkdir()
    for number in range(3000):
        (tmp_path / "wide" / str(number)).mkdir()
        (tmp_path / "wide" / str(number) / "f").touch()
    wide = cpu_seconds(lambda: fork(tmp_path / "wide", tmp_path / "wide2"))
    assert cpu_seconds(lambda: fork(tmp_path / "source", tmp_path / "target")) < 15 * wide + 1
    found = subprocess.run(["find", "target", "-name", "f"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert found.count(b"\n") == 3000
    remove_tree(tmp_path / "target")
    remove_tree(tmp_path / "source")


def test_fork_refuses_an_existing_directory(source: Path, tmp_path: Path) -> None:
    """An existing directory is refused and left unchanged."""
    (tmp_path / "target").mkdir()
    with pytest.raises(FileExistsError):
        fork(source, tmp_path / "target")
    assert (tmp_path / "target").is_dir()


def test_fork_that_fails_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete copy is removed."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "_copy_bytes", fail)
    with pytest.raises(OSError, match="No space"):
        fork(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_fork_keeps_owners(source: Path, tmp_path: Path) -> None:
    """As root, a fork keeps the owners of the original."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (source, source / "a/b/script"):
        os.chown(path, 12345, 12346)
    os.chown(source / "a/link", 12345, 12346, follow_symlinks=False)
    fork(source, tmp_path / "target")
    for name in ("", "a/b/script", "a/link"):
        status = (tmp_path / "target" / name).lstat()
        assert (status.st_uid, status.st_gid) == (12345, 12346)
    assert stat.S_IMODE((tmp_path / "target/a/b/script").stat().st_mode) == 0o755


def test_remove_tree(source: Path, tmp_path: Path) -> None:
    """Everything is removed, except for the targets of links."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (source / "to-kept").symlink_to(tmp_path / "kept")
    remove_tree(source)
    assert not source.exists()
    assert (tmp_path / "kept/file").exists()
    remove_tree(source)  # a missing tree is no error


def test_remove_a_link(source: Path, tmp_path: Path) -> None:
    """If the path is a link, only the link is removed."""
    (tmp_path / "link").symlink_to(source)
    remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (source / "a").is_dir()


def test_remove_deep(tmp_path: Path) -> None:
    """H11: trees deeper than the recursion limit can be removed."""
    (tmp_path / "deep").mkdir()
    make_deep(tmp_path / "deep", 3000)
    remove_tree(tmp_path / "deep")
    assert list(tmp_path.iterdir()) == []


def test_remove_closed_directories_as_an_ordinary_user() -> None:
    """H10: the user's own directories of mode 000 and 555 are removed, too."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o777)
        program = (
            "import os, pathlib; from agentbench_core.workspace.tree import remove_tree;"
            "os.setgid(12345); os.setuid(12345);"
            f"t = pathlib.Path({str(root)!r}) / 't'; (t / 'a/b/c').mkdir(parents=True); (t / 'a/b/c/f').touch();"
            "(t / 'a/b').chmod(0o555); (t / 'a').chmod(0); t.chmod(0); remove_tree(t); assert not t.exists()"
        )
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    finally:
        remove_tree(root)


def test_everything_around_an_undeletable_directory_is_removed() -> None:
    """F32: a directory of another user stays and is reported; everything around it is removed."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o777)
        program = (
            "import os, pathlib; from agentbench_core.workspace.tree import remove_tree;"
            "os.setgid(12345); os.setuid(12345);"
            f"t = pathlib.Path({str(root)!r}) / 't'\n"
            "for name in 'abcdefgh': (t / name / 'x').mkdir(parents=True); (t / name / 'x/f').touch()\n"
            "print(flush=True); input()\n"
            "try: remove_tree(t)\n"
            "except OSError as error: print(error)"
        )
        with subprocess.Popen(
            [sys.executable, "-B", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            os.chown(root / "t/d/x", 0, 0)
            (root / "t/d/x").chmod(0o755)
            said, _ = process.communicate("\n", timeout=30)
        assert "Permission denied" in said
        left = [path.name for path in sorted((root / "t").rglob("*"))]
        assert left[-1] == "f"
        assert len(left) <= 3
    finally:
        remove_tree(root)


def test_a_directory_that_moves_while_it_is_copied(tmp_path: Path) -> None:
    """H02: the copy never ascends into another directory, even if one is moved meanwhile."""
    (tmp_path / "source/a/b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret").write_text("SECRET")
    moved = threading.Event()

    def move_then_list(root: int, path: str, *, git: bool = False) -> list[TreeEntry]:
        found = list_directory(root, path, git=git)
        if not found and not moved.is_set():  # in source/a/b
            (tmp_path / "source/a/b").rename(tmp_path / "elsewhere/b")
            moved.set()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "list_directory", move_then_list)
        with pytest.raises(OSError, match="changed while being copied"):
            fork(tmp_path / "source", tmp_path / "target")
    assert not (tmp_path / "target").exists()
