"""Archives that were made to harm: nothing else than an UnavailableError, and nothing outside of the directory."""

import contextlib
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentbench_bridge.programs.unpack import unpack
from agentbench_bridge.programs.versions import parse
from agentbench_core import InputError, UnavailableError


def tar_of(*names: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"1"))
    return data.getvalue()


def header(name: bytes, kind: bytes, size: bytes) -> bytes:
    """A tar header with a checksum, and otherwise whatever a test passes."""
    block = bytearray(512)
    block[0 : len(name)], block[100:108], block[124 : 124 + len(size)] = name, b"0000644\0", size
    block[156:157], block[257:265], block[148:156] = kind, b"ustar\x0000", b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[bytes], str]:
    """Unpacks an archive that must be refused, and returns the message."""

    def refuse(plain: bytes) -> str:
        archive, into = tmp_path / "archive", tmp_path / "into"
        archive.write_bytes(gzip.compress(plain, 1))
        into.mkdir()
        with pytest.raises(UnavailableError) as caught:
            unpack(archive, into)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "into"]
        return str(caught.value)

    return refuse


@pytest.mark.parametrize("name", ["x\ny", "x\x1b[2J", "x\udcff", "x/" * 70 + "y"])
def test_names_that_are_not_plain_text_are_refused(refused: Callable[[bytes], str], name: str) -> None:
    assert "too deep, not UTF-8, or contains control characters" in refused(tar_of(name))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (b"x", b"77777777777\0"),
        (b"L", b"77777777777\0"),
        (b"x", b"\xff" * 12),
        (b"0", b"\xff" * 12),
        (b"0", b"no size"),
    ],
)
def test_headers_that_are_broken_or_of_any_length(refused: Callable[[bytes], str], kind: bytes, size: bytes) -> None:
    """8 GiB that are read in one piece, negative sizes, and a header that would silently end the archive."""
    refused(header(b"first", b"0", b"00000000000\0") + header(b"x", kind, size) + bytes(2048))


def test_a_chain_of_headers(refused: Callable[[bytes], str]) -> None:
    link = header(b"x", b"x", b"00000000014\0") + b"12 path=abc\n".ljust(512, b"\0")
    assert "recursion" in refused(link * 5000)


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_archives_raise_only_unavailable_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    plain = bytearray(tar_of("a/" * 55 + "b", "c", "\N{LATIN SMALL LETTER E WITH ACUTE}"))
    for position, byte in changes:
        plain[position] = byte
    directory = tmp_path_factory.mktemp("damaged")
    (directory / "archive").write_bytes(gzip.compress(bytes(plain), 1))
    (directory / "into").mkdir()
    with contextlib.suppress(UnavailableError):
        unpack(directory / "archive", directory / "into")
    assert sorted(path.name for path in directory.iterdir()) == ["archive", "into"]


@pytest.mark.parametrize("version", ["1", "1.2", "1.x.0", "latest", "^1.2.3", "1.2.3 || 2.0.0", "1.2.3/../x"])
def test_version_ranges_and_tags_are_refused(version: str) -> None:
    with pytest.raises(InputError, match="is not a valid version of codex"):
        parse(f"codex@{version}")
