"""``runs pack`` and ``runs unpack``: unpacked runs equal the originals, and hostile files change nothing."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_core.harness import lock_run, write_tags
from agentbench_runs.unpack import unpack_file
from agentbench_runs.unpacking import Limits

OUT = Path("artifacts/runs")
MakeRun = Callable[..., Path]


def _tree(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
        if path.name != ".lock"
    }


def test_an_unpacked_run_reads_as_before(agentbench: Any, make_run: MakeRun, tmp_path: Path) -> None:
    """It has all files, empty directories, tags and names that are not UTF-8."""
    run = make_run("a")
    write_tags(run, {"ticket": "42"})
    (run / "tasks/one/repo/empty").mkdir()
    (run / "tasks/one/repo" / os.fsdecode(b"caf\xe9" + b"x" * 200)).write_text("long name")
    (run / "tasks/one/repo/run.sh").touch(0o755)
    (run / "tasks/one/repo" / ("d/" * 256)).mkdir(parents=True)  # as deep as files of workspaces are
    shown, report = (
        agentbench(*command).out for command in (("runs", "show", "a"), ("report", "summary", "--run", "a"))
    )
    packed = agentbench("runs", "pack", "latest")
    assert packed.code == 0, packed.err
    assert packed.out.startswith("packed baseline-runa: a.tar.gz, ")
    before = _tree(run)
    run.rename("elsewhere")
    done = agentbench("runs", "unpack", "a.tar.gz")
    assert (done.code, done.out) == (0, "unpacked baseline-runa: artifacts/runs/a\n"), done.err
    assert _tree(run) == before
    assert (run / "tasks/one/repo/run.sh").stat().st_mode & 0o777 == 0o755
    assert (agentbench("runs", "show", "a").out, agentbench("report", "summary", "--run", "a").out) == (shown, report)
    assert [path.name for path in OUT.iterdir()] == ["a"]


def test_the_same_runs_become_the_same_file(agentbench: Any, make_run: MakeRun, tmp_path: Path) -> None:
    """Times, owners and the order of files do not matter. Several runs fit into one file."""
    for name in ("b", "a"):
        make_run(name)
    assert agentbench("runs", "pack", "a", "b", "-o", "one.tar.gz").code == 0
    shutil.copytree(OUT, "copied", ignore=lambda _, names: [".lock"] if ".lock" in names else [])
    os.utime("copied/a/run.json", (1, 1))
    assert agentbench("runs", "pack", "copied/a", "copied/b", "-o", "two.tar.gz").code == 0
    assert Path("one.tar.gz").read_bytes() == Path("two.tar.gz").read_bytes()
    assert agentbench("runs", "unpack", "one.tar.gz", "--out", "new").code == 0
    assert _tree(Path("new")) == _tree(OUT)


def test_what_cannot_be_packed(agentbench: Any, make_run: MakeRun, tmp_path: Path) -> None:
    """Nothing is written, and no existing file is replaced."""
    run = make_run("a")

    def refused(message: str, *flags: str) -> None:
        done = agentbench("runs", "pack", "a", *flags)
        assert done.code == 2
        assert message in done.err
        assert not list(tmp_path.glob("*.tar.gz*"))
        assert not list(tmp_path.glob(".*.tar.gz*"))

    with lock_run(run):
        refused("a is in progress")
    (run / "link").symlink_to("/etc/passwd")
    refused("link: it is a link")
    (run / "link").unlink()
    os.mkfifo(run / "pipe")
    refused("pipe: it is not a regular file")
    (run / "pipe").unlink()
    deep = run / ("d/" * 400)
    deep.mkdir(parents=True)
    refused("more than 300 levels of directories")
    refused("so it would contain itself", "-o", str(run / "x.tar.gz"))
    refused("several runs require a file name", "a")
    Path("mine").write_text("mine")
    refused("mine already exists", "-o", "mine")
    assert Path("mine").read_text() == "mine"


Member = tuple[str, bytes | None, dict[str, Any]]


def _archive(path: Path, members: list[Member], *, more: bytes = b"") -> Path:
    """A file with these members: name, content (``None`` for a directory) and fields of the header."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data, fields in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            info.size = len(data or b"")
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data or b""))
    path.write_bytes(gzip.compress(content.getvalue() + more))
    return path


@pytest.fixture
def good(make_run: MakeRun) -> list[Member]:
    """The members of a file that is accepted."""
    run = make_run("a")
    members: list[Member] = [("a", None, {}), ("a/tasks", None, {})]
    members += [(f"a/{name}", (run / name).read_bytes(), {}) for name in ("run.json", "attempts.jsonl", "events.jsonl")]
    shutil.rmtree(run)
    return members


def _refused(path: Path, message: str, limits: Limits | None = None) -> None:
    """Check that the file is refused with this message and leaves nothing behind."""
    before = _tree(Path())
    with pytest.raises(InputError) as caught:
        unpack_file(path, OUT, limits or Limits())
    assert message in caught.value.message
    assert caught.value.message.isprintable()
    assert _tree(Path()) == before


def test_the_good_file_is_accepted(good: list[Member]) -> None:
    assert unpack_file(_archive(Path("x"), good), OUT, Limits()) == [OUT / "a"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "is not a path inside a run") for name in ("a/../../../escaped", "/escaped", "../escaped", "..")),
        *((name, "is not a path inside a run") for name in ("a/./x", "a//x", "a/tasks/..", "")),
        ("escaped", "is not in the directory of a run"),
        ("a/" * 300 + "x", "a name that is too long"),
    ],
)
def test_paths_that_lead_out_are_refused(good: list[Member], name: str, message: str) -> None:
    """R02: Absolute paths, ``..``, and files outside of a run's directory."""
    for data in (b"x", None):
        if (name, data) != ("escaped", None):
            _refused(_archive(Path("x"), [*good, (name, data, {})]), message)
    assert not Path("/escaped").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a/../../escaped", "is not a path inside a run"),
        ("a/x\0y", "is not a path inside a run"),
        ("a/" + "x" * 300, "is not a path inside a run"),
        ("a/" + "y/" * 3000 + "x", "a name that is too long"),
    ],
)
def test_long_names_are_checked_as_short_ones(good: list[Member], name: str, message: str) -> None:
    """R02: A name in a separate header is not trusted more."""
    long = name.encode().ljust(600, b"\0")
    members = [*good, ("././@LongLink", long, {"type": tarfile.GNUTYPE_LONGNAME}), ("a/short", b"", {})]
    _refused(_archive(Path("x"), members), message)


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, b"Z",
    ],
)  # fmt: skip
def test_links_devices_and_unknown_members_are_refused(good: list[Member], kind: bytes) -> None:
    """R03: Only directories and regular files are accepted."""
    member: Member = ("a/tasks/x", b"", {"type": kind, "linkname": "/etc/passwd"})
    _refused(_archive(Path("x"), [*good, member]), "is neither a file nor a directory")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a/run.json", b"{}", "it contains 'a/run.json' twice"),
        ("a", None, "it contains 'a' twice"),
        ("a/tasks", b"", "it contains 'a/tasks' twice"),
        ("a/run.json", None, "it contains 'a/run.json' twice"),
        ("a/run.json/x", b"", "comes before its directory"),
        ("a/missing/x", b"", "comes before its directory"),
        ("b/run.json", b"", "comes before its directory"),
    ],
)
def test_duplicates_and_files_without_their_directory_are_refused(
    good: list[Member], name: str, data: bytes | None, message: str
) -> None:
    """R04: A file cannot replace another one."""
    _refused(_archive(Path("x"), [*good, (name, data, {})]), message)


@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_existing_runs_are_not_replaced(good: list[Member], kind: str) -> None:
    """R04: This applies to anything with the name of the run, even an empty directory."""
    path = OUT / "a"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/nowhere")
    else:
        path.write_text("mine")
    _refused(_archive(Path("x"), good), "already exists")
    assert os.path.lexists(path)


def test_a_run_that_appears_while_a_file_is_unpacked_is_kept(
    make_run: MakeRun, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R04: A second ``runs unpack`` may run at the same time. In that case, no run of the file appears."""
    for name in "ab":
        make_run(name)
    assert agentbench("runs", "pack", "a", "b", "-o", "x.tar.gz").code == 0
    lexists = os.path.lexists

    def appears(path: Path) -> bool:
        before = lexists(path)
        if path == Path("new/b"):
            path.mkdir()
            (path / "mine").touch()
        return before

    monkeypatch.setattr(os.path, "lexists", appears)
    with pytest.raises(InputError, match="cannot create new/b: Directory not empty"):
        unpack_file(Path("x.tar.gz"), Path("new"), Limits())
    assert [str(path) for path in sorted(Path("new").rglob("*"))] == ["new/b", "new/b/mine"]


def test_bombs_are_refused(good: list[Member]) -> None:
    """R05: Their ratio, size or number of files is too large."""
    path = _archive(Path("x"), [*good, ("a/zeros", b"\0" * (100 << 20), {})])
    assert path.stat().st_size < 1 << 20
    _refused(path, "more than 200 times larger than the file")
    _refused(path, "contains more than 1000000 bytes", Limits(bytes=1_000_000))
    many: list[Member] = [(f"a/tasks/{number}", b"", {}) for number in range(2100)]
    _refused(_archive(Path("y"), [*good, *many]), "contains more than 1000 files", Limits(entries=1000))


def test_sizes_in_headers_are_not_trusted(good: list[Member]) -> None:
    """R05: A header with a size that is negative or exceeds the content costs no memory."""
    content = gzip.decompress(_archive(Path("x"), good).read_bytes())
    end = content.rstrip(b"\0")
    body = content[: len(end) + -len(end) % 512]
    for kind, size, message in (
        (tarfile.REGTYPE, 1 << 62, "contains more than"),
        (tarfile.REGTYPE, 5000, "it is incomplete"),
        (tarfile.GNUTYPE_LONGNAME, 1 << 40, "name that is too long"),
        (tarfile.REGTYPE, -512, "negative size"),
        (tarfile.DIRTYPE, 1 << 40, "is a directory with content"),
    ):
        header = bytearray(tarfile.TarInfo("a/big").tobuf(tarfile.GNU_FORMAT))
        header[156:157] = kind
        header[124:136] = (b"\xff" if size < 0 else b"\x80") + struct.pack(">q", size).rjust(
            11, b"\xff" if size < 0 else b"\0"
        )
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        Path("x").write_bytes(gzip.compress(body + bytes(header)))
        _refused(Path("x"), message)


def test_damaged_files_are_refused(good: list[Member]) -> None:
    """R06: These are truncated, altered and extended files, files of other formats, and unreadable runs."""
    whole = _archive(Path("x"), good).read_bytes()
    for data in (
        b"",
        b"x",
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:-6] + b"\0" * 6,
        whole + b"more",
        gzip.compress(b"x"),
    ):
        Path("x").write_bytes(data)
        _refused(Path("x"), "x is damaged or was not written by `agentbench runs pack`")
    _refused(_archive(Path("x"), good, more=b"hidden"), "it contains data after its end")
    _refused(_archive(Path("x"), []), "it contains no run")
    _refused(_archive(Path("x"), [("a", None, {})]), "is not a run directory")
    _refused(_archive(Path("x"), [(".a", None, {})]), "hidden or contains control characters")
    _refused(_archive(Path("x"), [("a\x1b[2J", None, {})]), "hidden or contains control characters")
    changed: list[Member] = [
        (name, data.replace(b"custom-dev", b"custom-xxx") if data and name == "a/run.json" else data, {})
        for name, data, _ in good
    ]
    _refused(_archive(Path("x"), changed), "run.json is damaged: it differs from events.jsonl in suite")
