import pytest

from pipegram import Decoder, Message, Statistics, encode

FIRST = Message(1, b"first")
SECOND = Message(2, b"a|b\\c")


def test_several_frames() -> None:
    decoder = Decoder()
    assert decoder.feed(encode(FIRST) + encode(SECOND)) == [FIRST, SECOND]
    assert decoder.statistics == Statistics(received=2)


def test_pieces() -> None:
    line = encode(FIRST) + encode(SECOND)
    for cut in range(len(line) + 1):
        decoder = Decoder()
        assert decoder.feed(line[:cut]) + decoder.feed(line[cut:]) == [FIRST, SECOND]


def test_noise_before_the_first_flag() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x00\\noise" + encode(FIRST)) == [FIRST]
    assert decoder.statistics == Statistics(received=1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x01first\\", Statistics(aborted=1, received=1)),
        (b"\x01first\\x\x00\x00", Statistics(damaged=1, received=1)),
        (b"\x01first\x00\x00", Statistics(damaged=1, received=1)),
        (b"\x01", Statistics(damaged=1, received=1)),
        (encode(Message(1, b"x" * 11))[1:-1], Statistics(oversized=1, received=1)),
        (b"x" * 1000, Statistics(oversized=1, received=1)),
    ],
    ids=["aborted", "bad escape", "checksum", "short", "a byte too long", "far too long"],
)
def test_no_message(content: bytes, expected: Statistics) -> None:
    decoder = Decoder(max_payload=10)
    assert decoder.feed(b"|" + content + b"|" + encode(FIRST)) == [FIRST]
    assert decoder.statistics == expected


def test_longest_payload() -> None:
    message = Message(1, b"|" * 10)
    assert Decoder(max_payload=10).feed(encode(message)) == [message]
