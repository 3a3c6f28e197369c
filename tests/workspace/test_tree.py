from __future__ import annotations

import ctypes
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core.errors import PathEscapeError, ToolError
from agentbench_core.plugin.contracts import Workspace
from agentbench_core.workspace import listing, opening
from agentbench_core.workspace.tree import Tree, remove_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / "secret").write_text("SECRET")
    return root


@pytest.fixture
def tree(root: Path, way_to_open: str) -> Iterator[Tree]:
    with Tree(root) as tree:
        yield tree


def refused(error_type: str) -> pytest.RaisesExc[ToolError]:
    return pytest.raises(ToolError, check=lambda error: error.error_type == error_type)


def test_is_a_workspace(tree: Tree) -> None:
    """A tree implements the protocol that tools use."""
    workspace: Workspace = tree
    assert list(workspace.files()) == []


def test_write_read_remove(tree: Tree, root: Path) -> None:
    """Writing creates missing directories; removing a file also removes empty ones."""
    tree.write("a/b/c.py", b"1234")
    assert tree.read("a/b/c.py", limit=100) == b"1234"
    assert tree.read("a/b/c.py", limit=2) == b"12"
    assert stat.S_IMODE((root / "a/b/c.py").stat().st_mode) == 0o644
    tree.write("a/d", b"")
    tree.remove("a/b/c.py")
    assert list(tree.files()) == ["a/d"]
    assert not (root / "a/b").exists()
    tree.remove("a/d")
    assert list(root.iterdir()) == []


def test_executable(tree: Tree, root: Path) -> None:
    """The mode is kept unless requested otherwise; setuid bits are always dropped (H08, H09)."""
    tree.write("x", b"1", executable=True)
    assert tree.is_executable("x")
    tree.write("x", b"2")
    assert tree.is_executable("x")
    (root / "x").chmod(0o4750)
    tree.write("x", b"3")
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o750
    tree.write("x", b"4", executable=False)
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o640
    assert not tree.is_executable("x")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "d/../../secret", "", "a\0", ".git/config", "d//x"])
def test_paths_that_escape(tree: Tree, root: Path, path: str) -> None:
    """H03: every operation refuses them, and nothing is created."""
    for operation in (
        lambda: tree.read(path, limit=9),
        lambda: tree.write(path, b"x"),
        lambda: tree.remove(path),
        lambda: tree.is_executable(path),
        lambda: list(tree.files(path)) if path else tree.read(path, limit=9),
    ):
        with pytest.raises(PathEscapeError):
            operation()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("target", ["../secret", "/proc/self/environ", "real", "nowhere"])
def test_links_to_files(tree: Tree, root: Path, target: str) -> None:
    """H01: links are never read or written through, whatever their target."""
    (root / "real").write_text("real")
    (root / "x").symlink_to(target)
    with pytest.raises(PathEscapeError, match="'x'"):
        tree.read("x", limit=9)
    with pytest.raises(PathEscapeError, match="link"):
        tree.write("x", b"new")
    assert (root / "real").read_text() == "real"
    assert list(tree.files()) == ["real"]


def test_links_to_directories(tree: Tree, root: Path, tmp_path: Path) -> None:
    """H01, P06: files are not reached through a linked directory."""
    (root / "d").symlink_to("..")
    for path in ("d/secret", "d/new", "d/new/deeper"):
        with pytest.raises(PathEscapeError):
            tree.read(path, limit=9)
        with pytest.raises(PathEscapeError):
            tree.write(path, b"x")
        with pytest.raises(PathEscapeError):
            tree.remove(path)
    with pytest.raises(PathEscapeError):
        list(tree.files("d"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "workspace"]


def test_remove_a_link(tree: Tree, root: Path, tmp_path: Path) -> None:
    """The link is removed, its target stays."""
    (root / "x").symlink_to("../secret")
    tree.remove("x")
    assert not (root / "x").is_symlink()
    assert (tmp_path / "secret").exists()


def read_naively(root: Path, path: str) -> bytes:
    """The naive way: resolve and check the path, then open it."""
    try:
        return (root / path).read_bytes() if (root / path).resolve().is_relative_to(root) else b""
    except OSError:
        return b""


def test_race_between_directory_and_link(tree: Tree, root: Path) -> None:
    """H02: while a directory and a link swap names, 20 000 reads and writes stay inside the tree."""
    (root / "d").mkdir()
    (root / "d/secret").write_text("inside")
    (root / "l").symlink_to("..")
    over = threading.Event()
    names = os.fsencode(root / "d"), os.fsencode(root / "l")
    try:
        exchange = ctypes.CDLL(None).renameat2
    except AttributeError:
        pytest.skip("this system cannot exchange two names")

    def swap() -> None:
        while not over.is_set():
            exchange(-100, names[0], -100, names[1], 2)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes | str] = set()
    try:
        assert any(read_naively(root, "d/secret") == b"SECRET" for _ in range(100_000)), "the attack never succeeded"
        for _ in range(20_000):
            for access in (lambda: tree.read("d/secret", limit=99), lambda: tree.write("d/secret", b"inside")):
                try:
                    seen.add(access() or "written")
                except ToolError as error:
                    seen.add(error.error_type)
    finally:
        over.set()
        swapper.join()
    # Both occurred. "not_found": the link disappeared before it was checked.
    assert {b"inside", "written", "path_escape"} <= seen <= {b"inside", "written", "path_escape", "not_found"}
    assert (root.parent / "secret").read_text() == "SECRET"
    assert sorted(path.name for path in root.parent.iterdir()) == ["secret", "workspace"]


def test_hard_links(tree: Tree, root: Path) -> None:
    """H04: a write does not affect other names of the file, and a walk counts them."""
    (root / "test_x.py").write_text("protected")
    (root / "a.py").hardlink_to(root / "test_x.py")
    assert [entry.nlink for entry in tree.walk()] == [2, 2]
    tree.write("a.py", b"changed", executable=True)
    assert not (root / "test_x.py").stat().st_mode & 0o111
    assert (root / "test_x.py").read_text() == "protected"


def test_special_files(tree: Tree, root: Path) -> None:
    """H06, H07: FIFOs, sockets and devices are refused without blocking."""
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as observer:
        descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY)
        observer.bind(f"/proc/self/fd/{descriptor}/socket")
        os.close(descriptor)
    names = ["fifo", "socket"]
    if os.geteuid() == 0:
        os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names.append("null")
    for name in names:
        with refused("not_a_file"):
            tree.read(name, limit=9)
        with refused("not_a_file"):
            tree.write(name, b"x")
    assert {entry.kind for entry in tree.walk()} == {"special"}
    assert list(tree.files()) == []


def test_directory_in_the_way(tree: Tree, root: Path) -> None:
    """A directory is not accepted as a file, nor a file as a directory."""
    (root / "d").mkdir()
    (root / "f").write_text("x")
    with refused("not_a_file"):
        tree.read("d", limit=9)
    with refused("not_a_file"):
        tree.write("d", b"x")
    with refused("not_a_file"):
        tree.remove("d")
    with refused("not_found"):
        tree.read("f/x", limit=9)
    with refused("not_found"):
        tree.write("f/x", b"x")
    with refused("not_found"):
        tree.remove("missing")
    with refused("not_found"):
        list(tree.files("missing"))
    assert sorted(path.name for path in root.iterdir()) == ["d", "f"]


def test_long_names(tree: Tree) -> None:
    """H03: overlong names and paths are tool errors."""
    for path in ("x" * 300, "/".join(["x" * 200] * 40)):
        with refused("not_found"):
            tree.read(path, limit=9)
    with refused("not_found"):
        tree.write("x" * 300, b"")


def test_paths_longer_than_one_call(tree: Tree) -> None:
    """Paths beyond PATH_MAX are opened part by part."""
    path = "/".join(["x" * 200] * 30)
    tree.write(path, b"deep")
    assert tree.read(path, limit=9) == b"deep"
    assert list(tree.files()) == [path]
    tree.remove(path)
    assert list(tree.root.iterdir()) == []


def test_sparse_file(tree: Tree, root: Path) -> None:
    """H12: a huge sparse file is read only up to the limit."""
    (root / "huge").touch()
    os.truncate(root / "huge", 50 << 30)
    assert tree.read("huge", limit=1000) == bytes(1000)
    assert [entry.size for entry in tree.walk()] == [50 << 30]


def test_walk(tree: Tree, root: Path) -> None:
    """Entries are sorted by path; .git at any level is one entry; links are not followed."""
    for name in ("b/x", "b.py", "a/.git/config", ".git/HEAD", "a/y", "B", "b-c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root / "a/z").symlink_to("../b")
    (root / "empty").mkdir()
    (root / "sub").mkdir()
    (root / "sub/.git").write_text("gitdir: /elsewhere")
    found = [(entry.path, entry.kind) for entry in tree.walk()]
    assert found == [
        (".git", "repository"),
        ("B", "file"),
        ("a/.git", "repository"),
        ("a/y", "file"),
        ("a/z", "link"),
        ("b-c", "file"),
        ("b.py", "file"),
        ("b/x", "file"),
        ("sub/.git", "repository"),
    ]
    assert [entry.target for entry in tree.walk() if entry.kind == "link"] == ["../b"]
    assert list(tree.files()) == ["B", "a/y", "b-c", "b.py", "b/x"] == sorted(tree.files())
    assert list(tree.files("a")) == ["a/y"]
    assert list(tree.files("b/x")) == ["b/x"]


def test_names_that_are_not_utf8(tree: Tree, root: Path) -> None:
    """H19: names with newlines or bytes that are not UTF-8 work."""
    (root / "d\n").mkdir()
    (root / os.fsdecode(b"d\n/\xff\x1b[31m")).write_bytes(b"1")
    (path,) = tree.files()
    assert os.fsencode(path) == b"d\n/\xff\x1b[31m"
    assert tree.read(path, limit=9) == b"1"


def make_deep(root: Path, depth: int) -> None:
    """Create nested directories called d, too deep for one path, with a file at the end."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_deep(tree: Tree, root: Path) -> None:
    """H11: a walk stops at 256 directories and reports it, without recursion."""
    make_deep(root, 3000)
    (root / "z").write_text("x")
    deep, after = tree.walk()
    assert (deep.kind, deep.path.count("/")) == ("deep", 255)
    assert after.path == "z"
    assert list(tree.files()) == ["z"]
    remove_tree(root)


def test_as_deep_as_allowed(tree: Tree, root: Path) -> None:
    """The file in the 255th directory is still listed."""
    make_deep(root, listing.DEPTH_MAX - 1)
    (entry,) = tree.walk()
    assert (entry.kind, entry.path.count("/")) == ("file", 255)
    remove_tree(root)


def test_too_many_entries(tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: too many files are refused before they fill the memory."""
    monkeypatch.setattr(listing, "ENTRIES_MAX", 10)
    for name in range(11):
        (root / str(name)).mkdir()
    with refused("too_many_files"):
        list(tree.walk())


def test_endless_names(tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H11, H14: few entries with very long paths are refused as well, since they fill the memory, too."""
    monkeypatch.setattr(listing, "NAMES_MAX", 120_000)
    deep = root
    for _ in range(15):
        deep = deep / ("d" * 250)
        deep.mkdir()
    for name in range(20):
        (deep / str(name)).touch()
    assert len(list(tree.walk())) == 20
    for name in range(20, 40):
        (deep / str(name)).touch()
    with refused("too_many_files"):
        list(tree.walk())


def test_lack_of_descriptors_raises(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F25: a walk without file descriptors raises, instead of reporting unreadable directories."""
    (root / "d").mkdir()
    scandir = os.scandir

    def later(fd: int) -> object:
        if os.path.samestat(os.fstat(fd), (root / "d").stat()):
            raise OSError(24, "Too many open files")
        return scandir(fd)

    with Tree(root) as tree:
        monkeypatch.setattr(os, "scandir", later)
        with pytest.raises(OSError, match="Too many open files"):
            list(tree.walk())


def test_failed_write_leaves_nothing(tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write keeps the old file and leaves no temporary file."""
    (root / "a").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", fail)
    with pytest.raises(OSError, match="No space"):
        tree.write("a", b"new")
    assert [path.read_text() for path in root.iterdir()] == ["old"]


def test_owner(tree: Tree, root: Path) -> None:
    """As root, new files get the owner of their directory."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(root, 12345, 12346)
    tree.write("a/b", b"x")
    for path in (root / "a", root / "a/b"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_root_must_be_a_directory(root: Path) -> None:
    """The root must not be a link or a file."""
    (root / "f").touch()
    (root / "l").symlink_to(".")
    for name in ("f", "l"):
        with pytest.raises(NotADirectoryError):
            Tree(root / name)


def test_close_twice(root: Path) -> None:
    """Closing is idempotent, and a closed tree raises."""
    tree = Tree(root)
    tree.close()
    tree.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        tree.write("a", b"x")


def test_openat2_changing_tree(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that keeps changing is refused instead of retried forever."""
    if not opening.has_openat2():
        pytest.skip("this kernel has no openat2")

    class Busy:
        def syscall(self, *_: object) -> int:
            ctypes.set_errno(11)
            return -1

    monkeypatch.setattr(opening, "_libc", Busy)
    with Tree(root) as tree, pytest.raises(PathEscapeError):
        tree.read("a", limit=1)
