# agentbench-canary: 8c951dec-24f1-4b86-89ad-b60ad1097c16
"""Every message arrives, whatever its bytes are, whatever is between the frames, and however the line is cut."""

import random
from binascii import crc_hqx
from io import BytesIO

import pytest

from pipegram import Decoder, Message, Statistics, encode, read_messages, write_messages

GOOD = Message(9, b"good")


def by_the_book(kind, payload=b"", *, spoilt=False):
    """A frame as the README describes it."""
    data = bytes([kind]) + payload
    crc = crc_hqx(data, 0xFFFF) ^ (1 if spoilt else 0)
    content = data + bytes([crc >> 8, crc & 0xFF])
    return b"|" + content.replace(b"\\", b"\\\x1c").replace(b"|", b"\\\x3c") + b"|"


def checksum_bytes(message):
    crc = crc_hqx(bytes([message.kind]) + message.payload, 0xFFFF)
    return crc >> 8, crc & 0xFF


MANY = [Message(number % 256, f"t={number / 10}".encode()) for number in range(6000)]
TRICKY = [message for message in MANY if set(checksum_bytes(message)) & {0x5C, 0x7C}]


def fed(line, size, **options):
    decoder = Decoder(**options)
    messages = []
    for start in range(0, len(line), size):
        messages += decoder.feed(line[start : start + size])
    return messages, decoder.statistics


def test_there_are_tricky_ones():
    firsts = {checksum_bytes(message)[0] for message in TRICKY}
    lasts = {checksum_bytes(message)[1] for message in TRICKY}
    assert {0x5C, 0x7C} <= firsts
    assert {0x5C, 0x7C} <= lasts


def test_frames_are_by_the_book():
    for message in MANY:
        assert encode(message) == by_the_book(message.kind, message.payload)


def test_flags_are_at_the_ends_only():
    for message in TRICKY:
        assert b"|" not in encode(message)[1:-1]


def test_frames_by_the_book_are_read():
    line = b"".join(by_the_book(message.kind, message.payload) for message in MANY)
    assert fed(line, len(line)) == (MANY, Statistics(received=len(MANY)))


@pytest.mark.parametrize("kind", [0x3C, 0x1C, 0x5C, 0x7C, 12, 46, 109, 111, 228, 230])
def test_without_payload(kind):
    assert Decoder().feed(encode(Message(kind))) == [Message(kind)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 4096])
def test_pieces_of_any_size(size):
    messages = [*TRICKY, Message(0x5C, b"||\\\\<\x1c|"), Message(0x7C), *MANY[:300]]
    line = b"".join(map(encode, messages))
    assert fed(line, size) == (messages, Statistics(received=len(messages)))


def test_every_cut():
    messages = [Message(1, b"a|b\\c"), Message(0x5C, b"\\"), TRICKY[0], TRICKY[1]]
    line = b"".join(map(encode, messages))
    for first in range(len(line) + 1):
        for second in range(first, len(line) + 1):
            decoder = Decoder()
            found = decoder.feed(line[:first]) + decoder.feed(line[first:second]) + decoder.feed(line[second:])
            assert found == messages
            assert decoder.statistics == Statistics(received=len(messages))


def test_messages_come_with_the_byte_that_completes_them():
    line = encode(Message(1, b"|")) + encode(Message(2, b"\\"))
    decoder = Decoder()
    counts = [len(decoder.feed(line[index : index + 1])) for index in range(len(line))]
    assert [index for index, count in enumerate(counts) if count] == [len(encode(Message(1, b"|"))) - 1, len(line) - 1]


def test_empty_pieces():
    decoder = Decoder()
    found = []
    for byte in encode(Message(1, b"|\\|")):
        found += decoder.feed(b"") + decoder.feed(bytes([byte])) + decoder.feed(b"")
    assert found == [Message(1, b"|\\|")]


def test_random_pieces():
    chance = random.Random(5)
    messages = [Message(chance.choice(b"|\\<\x1c\x00"), bytes(chance.choices(b"|\\<\x1cab", k=7))) for _ in range(500)]
    line = b"".join(map(encode, messages))
    decoder = Decoder()
    found = []
    while line:
        size = chance.randrange(6)
        found += decoder.feed(line[:size])
        line = line[size:]
    assert found == messages


@pytest.mark.parametrize("block", range(1, 30))
def test_recordings(block):
    messages = [*TRICKY[:40], Message(3, b"|" * 50), Message(4, b"\\" * 51), *MANY[:40]]
    file = BytesIO()
    write_messages(file, messages)
    file.seek(0)
    assert list(read_messages(file, block=block)) == messages


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 1000])
@pytest.mark.parametrize(
    ("frame", "count"),
    [
        (b"|\x01abc\\|", "aborted"),
        (b"|\\|", "aborted"),
        (b"|\x01\\<\\\x1cabc\\|", "aborted"),
        (b"|\x01abc\\def|", "damaged"),
        (b"|\\\x00abcdef|", "damaged"),
        (b"|\x01|", "damaged"),
        (b"|\\<|", "damaged"),
        (b"|\\<\\<|", "damaged"),
        (by_the_book(1, b"a|b\\c", spoilt=True), "damaged"),
        (by_the_book(1, b"x" * 17), "oversized"),
        (by_the_book(1, b"|" * 17), "oversized"),
        (by_the_book(1, b"\\x" * 40), "oversized"),
    ],
)
def test_no_message(frame, count, size):
    line = encode(GOOD) + frame + encode(GOOD) + frame[1:] + encode(GOOD)[1:]
    messages, statistics = fed(line, size, max_payload=16)
    assert messages == [GOOD] * 3
    assert statistics == Statistics(**{"received": 3, count: 2})


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("payload", [b"|" * 16, b"\\" * 16, b"|\\" * 8, b"\x1c<" * 8, b"x" * 16])
def test_escapes_do_not_count_for_the_limit(payload, size):
    for kind in range(256):
        message = Message(kind, payload)
        assert fed(encode(message), size, max_payload=16)[0] == [message]


def test_limit_of_nothing():
    for kind in (0, 12, 46, 0x5C, 0x7C):
        assert fed(encode(Message(kind)), 1, max_payload=0) == ([Message(kind)], Statistics(received=1))
        assert fed(encode(Message(kind, b"|")), 1, max_payload=0) == ([], Statistics(oversized=1))


@pytest.mark.parametrize("noise", [b"x", b"\\<"])
def test_frame_without_end(noise):
    decoder = Decoder(max_payload=100)
    assert decoder.feed(b"|") == []
    for _ in range(20_000):
        assert decoder.feed(noise) == []
    assert decoder.feed(encode(GOOD)) == [GOOD]
    assert decoder.statistics == Statistics(received=1, oversized=1)


def joined(frames, shared):
    """The frames on a line; of those whose number is in ``shared``, the first flag is that of the frame before."""
    return b"".join(frame[1:] if number in shared else frame for number, frame in enumerate(frames))


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("shared", [set(), {1}, {2}, {1, 2}, {2, 4}, {1, 3, 5}, {1, 2, 3, 4, 5}, {3, 4}])
def test_one_flag_for_two_frames(shared, size):
    messages = [Message(number, b"|\\" * number) for number in range(6)]
    line = joined([encode(message) for message in messages], shared)
    assert fed(line, size) == (messages, Statistics(received=6))
    assert fed(b"noise" + line + b"\x01", size) == (messages, Statistics(received=6))


@pytest.mark.parametrize("flags", range(1, 8))
@pytest.mark.parametrize("size", [1, 1000])
def test_any_number_of_flags_between_frames(flags, size):
    messages = [Message(1, b"one"), Message(2, b"two"), Message(3, b"three")]
    line = b"|" * flags + (b"|" * flags).join(encode(message)[1:-1] for message in messages) + b"|" * flags
    assert fed(line, size) == (messages, Statistics(received=3))


@pytest.mark.parametrize("lost", range(10))
@pytest.mark.parametrize("size", [1, 1000])
def test_flag_that_is_lost(lost, size):
    """At most the frame that it belonged to is lost with it."""
    messages = [Message(number, b"text") for number in range(5)]
    line = bytearray(b"".join(map(encode, messages)))
    positions = [index for index, byte in enumerate(line) if byte == 0x7C]
    del line[positions[lost]]
    found, statistics = fed(bytes(line), size)
    if lost == 0:
        assert (found, statistics) == (messages[1:], Statistics(received=4))
    elif lost == 9:
        assert (found, statistics) == (messages[:-1], Statistics(received=4))
    else:
        assert (found, statistics) == (messages, Statistics(received=5))


@pytest.mark.parametrize("lost", range(1, 5))
@pytest.mark.parametrize("size", [1, 1000])
def test_both_flags_between_two_frames_are_lost(lost, size):
    messages = [Message(number, b"text") for number in range(6)]
    frames = [encode(message) for message in messages]
    line = b"".join(frames[:lost])[:-1] + b"".join(frames[lost:])[1:]
    expected = messages[: lost - 1] + messages[lost + 1 :]
    assert fed(line, size) == (expected, Statistics(received=4, damaged=1))


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("noise", [b"x", b"noise", b"\\", b"\\x", b"x" * 50])
def test_noise_between_frames(noise, size):
    """It is between two flags, so it is a frame, and no message."""
    messages, statistics = fed((encode(GOOD) + noise) * 3 + encode(GOOD), size, max_payload=16)
    assert messages == [GOOD] * 4
    assert statistics.received == 4
    assert statistics.aborted + statistics.oversized + statistics.damaged == 3


def test_flag_too_many_in_a_frame():
    good = encode(GOOD)
    for position in range(1, len(good)):
        messages, statistics = fed(good + good[:position] + b"|" + good[position:] + good, 1000)
        expected = 3 if position in (1, len(good) - 1) else 2
        assert messages == [GOOD] * expected
        assert statistics == Statistics(received=expected, damaged=0 if expected == 3 else 2)


@pytest.mark.parametrize("start", range(1, 20))
def test_line_that_is_joined_late(start):
    frames = [encode(Message(number, b"text")) for number in range(6)]
    messages, _ = fed(b"".join(frames)[start:], 3)
    first = next(number for number in range(6) if len(b"".join(frames[:number])) >= start)
    assert messages == [Message(number, b"text") for number in range(first, 6)]


def test_noise_before_the_first_flag_that_ends_with_an_escape():
    decoder = Decoder()
    assert decoder.feed(b"noise\\") + decoder.feed(encode(GOOD)) == [GOOD]
    assert decoder.statistics == Statistics(received=1)


def test_decoders_are_apart():
    one, other = Decoder(), Decoder()
    assert one.feed(b"|\x01\\") == []
    assert other.feed(encode(GOOD)) == [GOOD]
    assert one.feed(encode(Message(1, b"|"))[3:]) == [Message(1, b"|")]
