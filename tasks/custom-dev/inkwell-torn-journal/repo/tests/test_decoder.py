import pytest

from inkwell import DamagedRecord, Decoder, encode


def test_the_bytes_of_a_record() -> None:
    assert encode(b"ok") == bytes.fromhex("02 6f6b 79dcdd47")
    assert encode(b"") == bytes(5)
    assert encode(bytes(300))[:2] == bytes.fromhex("ac02")


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 16_383, 16_384, 70_000])
def test_what_is_written_is_read(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert Decoder().feed(encode(data)) == [data]


def test_several_records_in_one_chunk() -> None:
    assert Decoder().feed(encode(b"one") + encode(b"") + encode(b"three")) == [b"one", b"", b"three"]


def test_one_record_in_several_chunks() -> None:
    decoder = Decoder()
    record = encode(b"one") + encode(b"two")
    fed = [decoder.feed(record[index : index + 1]) for index in range(len(record))]
    assert [data for records in fed for data in records] == [b"one", b"two"]


def test_a_large_record_in_several_chunks() -> None:
    decoder = Decoder()
    record = encode(bytes(200))
    fed = [decoder.feed(record[index : index + 1]) for index in range(len(record))]
    assert [data for records in fed for data in records] == [bytes(200)]


def test_nothing_is_pending_between_records() -> None:
    decoder = Decoder()
    assert decoder.pending == 0
    decoder.feed(encode(b"one"))
    assert decoder.pending == 0


@pytest.mark.parametrize("damaged", ["026f6b79dcdd46", "026f6c79dcdd47", "ffffffff"])
def test_damaged(damaged: str) -> None:
    with pytest.raises(DamagedRecord):
        Decoder().feed(encode(b"fine") + bytes.fromhex(damaged))
