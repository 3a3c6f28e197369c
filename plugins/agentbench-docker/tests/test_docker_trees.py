"""Archives of prepared trees: what they keep, and what is refused."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from agentbench_core import InputError
from agentbench_docker import trees


def described(tree: Path) -> dict[str, tuple[object, ...]]:
    """Kind, permissions, time and content of everything in a tree."""
    found: dict[str, tuple[object, ...]] = {}
    for directory, names, files, descriptor in os.fwalk(tree):
        for name in (*names, *files, "."):
            path = Path(directory, name)
            status = path.lstat()
            content: object = None
            if path.is_symlink():
                content = os.readlink(name, dir_fd=descriptor)  # exactly as it is stored
            elif path.is_file():
                content = path.read_bytes()
            mode = stat.S_IMODE(status.st_mode) & 0o777
            found[str(path.relative_to(tree))] = stat.S_IFMT(status.st_mode), mode, int(status.st_mtime), content
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with everything that setups may leave."""
    root = tmp_path / "tree"
    deep = root.joinpath("a" * 200, "b" * 200, "c")
    deep.mkdir(parents=True)
    (deep / "long").write_text("deep\n")
    (root / "empty").mkdir()
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "group").write_text("g")
    (root / "group").chmod(0o664)
    (root / "absolute").symlink_to("/etc/passwd")
    (root / "dangling").symlink_to("nowhere")
    (root / "out").symlink_to("../..")
    for name, target in (("plain", "./run.sh"), ("slash", "empty/"), ("twice", ".//run.sh"), ("here", "./.")):
        (root / name).symlink_to(target)
    Path(os.fsdecode(os.fsencode(root) + b"/not-\xff-utf8")).write_text("x")
    (root / "new\nline").write_text("y")
    (root / "hard").hardlink_to(root / "group")
    os.mkfifo(root / "fifo")
    (root / "sealed").mkdir()
    (root / "sealed/file").write_text("z")
    os.utime(root / "sealed/file", (1_000_000_000, 1_000_000_000))
    os.utime(root / "sealed", (1_100_000_000, 1_100_000_000))
    (root / "sealed").chmod(0o500)
    os.utime(root, (1_200_000_000, 1_200_000_000))
    root.chmod(0o711)
    return root


def test_everything_is_kept(tree: Path, tmp_path: Path) -> None:
    """Names, links, permissions and times; hard links become files, and pipes are left out, as in forks."""
    digest = trees.pack(tree, tmp_path / "archive")
    assert trees.sha256(tmp_path / "archive") == digest
    trees.unpack(tmp_path / "archive", tmp_path / "again")
    before = described(tree)
    del before["fifo"]
    assert described(tmp_path / "again") == before
    assert (tmp_path / "again/hard").stat().st_nlink == 1
    assert trees.pack(tmp_path / "again", tmp_path / "second") == digest


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def entry(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info


@pytest.mark.parametrize(
    "members",
    [
        [link("out", ".."), entry("out/evil")],
        [link("out", "/"), entry("out", tarfile.DIRTYPE), entry("out/evil")],
        [entry("d", tarfile.DIRTYPE), entry("d/../../evil")],
        [entry("../evil")],
        [entry("/evil")],
        [entry("d", tarfile.DIRTYPE), entry(".", tarfile.DIRTYPE)],
        [entry(".")],
        [link(".", "/")],
        [entry("d/..", tarfile.DIRTYPE)],
        [link("d", "/"), entry("d/.", tarfile.DIRTYPE), entry("d/evil")],
        [entry("missing/evil")],
        [link("file", ".."), entry("file")],
        [entry("twice"), entry("twice")],
        [link("shadow", "/etc/passwd", tarfile.LNKTYPE)],
        [entry("fifo", tarfile.FIFOTYPE)],
        [entry("device", tarfile.CHRTYPE)],
    ],
    ids=lambda members: " ".join(f"{each.name}:{each.type.decode()}" for each in members),
)
def test_hostile_archives_are_refused(members: list[tarfile.TarInfo], tmp_path: Path) -> None:
    """W13: nothing is written outside of the new tree."""
    place = tmp_path / "place"
    place.mkdir()
    with tarfile.open(tmp_path / "archive", "w") as tar:
        if members[0].name != ".":
            tar.addfile(entry(".", tarfile.DIRTYPE))
        for member in members:
            tar.addfile(member, io.BytesIO())
    with pytest.raises(InputError, match="cannot be unpacked"):
        trees.unpack(tmp_path / "archive", place / "tree")
    assert [path.name for path in place.iterdir()] == ["tree"]
    assert not (tmp_path / "evil").exists()


def test_permissions_of_archives_are_limited(tmp_path: Path) -> None:
    """No file becomes setuid."""
    member = entry("run")
    member.mode = 0o6755
    with tarfile.open(tmp_path / "archive", "w") as tar:
        tar.addfile(entry(".", tarfile.DIRTYPE))
        tar.addfile(member, io.BytesIO())
    trees.unpack(tmp_path / "archive", tmp_path / "tree")
    assert stat.S_IMODE((tmp_path / "tree/run").stat().st_mode) == 0o755


def test_archives_without_the_tree_itself_are_refused(tmp_path: Path) -> None:
    """Its permissions would depend on the umask."""
    with tarfile.open(tmp_path / "archive", "w") as tar:
        tar.addfile(entry("file"), io.BytesIO())
    with pytest.raises(InputError, match="the first member is not the root directory"):
        trees.unpack(tmp_path / "archive", tmp_path / "tree")


@pytest.mark.parametrize("time", ["inf", "-inf", "nan", "1e300", "-1e300"])
@pytest.mark.parametrize("name", [".", "file"])
def test_impossible_times_are_refused(name: str, time: str, tmp_path: Path) -> None:
    """W13: with a message, not with an internal error."""
    with tarfile.open(tmp_path / "archive", "w") as tar:
        for member in (entry(".", tarfile.DIRTYPE), entry("file")):
            if member.name == name:
                member.pax_headers = {"mtime": time}
            tar.addfile(member, io.BytesIO())
    with pytest.raises(InputError, match="cannot be unpacked"):
        trees.unpack(tmp_path / "archive", tmp_path / "tree")


def test_a_long_chain_of_headers_is_refused(tmp_path: Path) -> None:
    """W13: Python reads extended headers recursively."""
    with tarfile.open(tmp_path / "archive", "w") as tar:
        tar.addfile(entry(".", tarfile.DIRTYPE))
        for _ in range(5000):
            header = entry("header", tarfile.XHDTYPE)
            header.size = 512
            tar.fileobj.write(header.tobuf(tarfile.USTAR_FORMAT) + b"11 path=ab\n".ljust(512, b"\0"))
    with pytest.raises(InputError, match="cannot be unpacked"):
        trees.unpack(tmp_path / "archive", tmp_path / "tree")


def test_damaged_archives_are_refused(tree: Path, tmp_path: Path) -> None:
    """W13: cut in the middle of a file, or not an archive at all."""
    (tree / "big").write_bytes(os.urandom(100_000))
    trees.pack(tree, tmp_path / "archive")
    data = (tmp_path / "archive").read_bytes()
    for number, cut in enumerate((data[:50_000], b"no archive")):
        (tmp_path / "cut").write_bytes(cut)
        with pytest.raises(InputError, match="cannot be unpacked"):
            trees.unpack(tmp_path / "cut", tmp_path / f"tree-{number}")
