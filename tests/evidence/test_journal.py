"""Lines of the journal: torn and damaged ones are detected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_core import InputError
from agentbench_core.evidence import journal

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.long
@given(st.dictionaries(st.text(), PLAIN), st.data())
def test_checksum_detects_any_flipped_bit(value: dict[str, Any], data: Any) -> None:
    """F34: this holds for any content and any bit."""
    line = journal.add_checksum(value)
    assert line.count(b"\n") == 1
    assert journal.parsed(line, sealed=True) == value
    at = data.draw(st.integers(0, len(line) - 2))
    flipped = bytes([*line[:at], line[at] ^ (1 << data.draw(st.integers(0, 7))), *line[at + 1 :]])
    with pytest.raises(ValueError, match="checksum"):
        journal.parsed(flipped, sealed=True)


@given(st.lists(st.binary(max_size=50).map(lambda data: data.replace(b"\n", b""))), st.binary(max_size=50))
def test_only_the_incomplete_last_line_is_removed(tmp_path_factory: Any, whole: list[bytes], torn: bytes) -> None:
    """F03: the tail is removed, and nothing else."""
    torn = torn.replace(b"\n", b"")
    path: Path = tmp_path_factory.mktemp("journal") / "lines"
    before = b"".join(line + b"\n" for line in whole)
    path.write_bytes(before + torn)
    assert journal.partial_line(path) == torn
    assert journal.cut_partial_line(path) == len(torn)
    assert path.read_bytes() == before
    assert journal.cut_partial_line(path) == 0


def test_a_torn_tail_longer_than_a_block(tmp_path: Path) -> None:
    """Lines may have any length."""
    path = tmp_path / "lines"
    path.write_bytes(b"{}\n" + b"x" * 300_000)
    assert len(journal.partial_line(path)) == 300_000
    path.write_bytes(b"x" * 300_000)
    assert journal.cut_partial_line(path) == 300_000
    assert path.read_bytes() == b""


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b'{"seq":1}', b'{"seq":1,"crc":"00000000"}', b""])
def test_a_damaged_line_is_named_with_the_remedy(tmp_path: Path, line: bytes) -> None:
    """F34: the error has the line number and the remedy; a torn last line is not damage."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(journal.add_checksum({"seq": 1}) + line + b"\n" + b'{"torn')
    with pytest.raises(InputError, match=r"events\.jsonl:2 is damaged") as error:
        list(journal.lines(path, sealed=True))
    assert f"agentbench runs rebuild {tmp_path}" in str(error.value)
