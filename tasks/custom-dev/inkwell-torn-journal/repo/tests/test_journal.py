from pathlib import Path

import pytest

from inkwell import DamagedRecord, Journal, encode, read


def test_append_and_read(tmp_path: Path) -> None:
    path = tmp_path / "events.ink"
    with Journal(path) as journal:
        assert journal.size == 0
        journal.append(b"one")
        assert list(read(path)) == [b"one"]
        journal.append(bytes(1000))
    assert list(read(path)) == [b"one", bytes(1000)]
    assert path.read_bytes() == encode(b"one") + encode(bytes(1000))


def test_append_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "events.ink"
    path.write_bytes(encode(b"one"))
    with Journal(path) as journal:
        assert journal.size == len(encode(b"one"))
        journal.append(b"two")
    assert list(read(path)) == [b"one", b"two"]
    assert list(read(path, len(encode(b"one")))) == [b"two"]


def test_end_that_is_not_complete_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.ink"
    path.write_bytes(encode(b"one") + encode(b"two")[:-1])
    assert list(read(path)) == [b"one"]
    with Journal(path):
        pass
    assert list(read(path)) == [b"one"]


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.ink"
    content = encode(b"one")[:-1] + b"?" + encode(b"two")[:-1]
    path.write_bytes(content)
    with pytest.raises(DamagedRecord):
        Journal(path)
    assert path.read_bytes() == content
