# agentbench-canary: 3b69657e-26a4-4ca1-813c-f9435296481e
"""Records are the same in whatever pieces they come, and wherever a file was torn."""

import itertools
from functools import cache
from zlib import crc32

import pytest

from inkwell import DamagedRecord, Decoder, Journal, encode, read

SIZES = [0, 1, 2, 127, 128, 129, 255, 256, 300, 16_383, 16_384, 16_385]


@cache
def data_of(size):
    return bytes((7 * index + size) % 256 for index in range(size))


def fed(chunks):
    decoder = Decoder()
    return list(itertools.chain(*(decoder.feed(chunk) for chunk in chunks)))


def pieces(whole, size):
    return [whole[index : index + size] for index in range(0, len(whole), size)]


@pytest.mark.parametrize("size", SIZES)
def test_byte_by_byte(size):
    record = encode(data_of(size))
    assert fed(pieces(record, 1)) == [data_of(size)]
    assert fed(pieces(record * 2 + encode(b"end"), 1)) == [data_of(size)] * 2 + [b"end"]


@pytest.mark.parametrize("size", [*range(1, 12), 100, 131, 132, 133, 1000])
def test_chunks_of_one_size(size):
    sizes = [0, 127, 128, 1, 300, 129, 0, 2, 255, 128]
    whole = b"".join(encode(data_of(size)) for size in sizes)
    assert fed(pieces(whole, size)) == [data_of(size) for size in sizes]


def test_every_cut():
    sizes = [3, 128, 0, 300, 16_384, 5]
    records = [encode(data_of(size)) for size in sizes]
    whole = b"".join(records)
    begins = [sum(map(len, records[:index])) for index in range(len(records) + 1)]
    near = sorted({cut for begin in begins for cut in range(begin - 5, begin + 5) if 0 <= cut <= len(whole)})
    for first, second in itertools.chain(itertools.product(near, begins), itertools.pairwise(near)):
        first, second = sorted((first, second))
        assert fed([whole[:first], whole[first:second], b"", whole[second:]]) == [data_of(size) for size in sizes]


def test_empty_chunks():
    record = encode(data_of(300))
    assert fed([b"", *itertools.chain(*((byte, b"") for byte in pieces(record, 1)))]) == [data_of(300)]
    assert fed([b"", b""]) == []


def test_as_soon_as_complete():
    decoder = Decoder()
    record = encode(data_of(200))
    assert decoder.feed(record[:-1]) == []
    assert decoder.feed(record[-1:] + record[:1]) == [data_of(200)]
    assert decoder.feed(record[1:] + b"\x00") == [data_of(200)]
    assert decoder.feed(bytes(4)) == [b""]


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 50, 10_000])
def test_pending(chunk_size):
    sizes = [2, 128, 0, 300, 16_384, 1]
    whole = b"".join(encode(data_of(size)) for size in sizes)
    decoder = Decoder()
    count = end = 0
    for place in range(0, len(whole), chunk_size):
        chunk = whole[place : place + chunk_size]
        for data in decoder.feed(chunk):
            assert data == data_of(sizes[count])
            count += 1
            end += len(encode(data))
        assert decoder.pending == place + len(chunk) - end
    assert count == len(sizes)
    assert decoder.pending == 0


def test_longest_length():
    start = b"\xff\xff\xff\x7f"
    decoder = Decoder()
    for count, byte in enumerate(pieces(start + b"abc", 1), 1):
        assert decoder.feed(byte) == []
        assert decoder.pending == count


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_length_that_goes_on(size):
    decoder = Decoder()
    chunks = pieces(encode(data_of(200)) + b"\xff\x80\xff\xff", size)
    with pytest.raises(DamagedRecord):
        for chunk in chunks:
            decoder.feed(chunk)


@pytest.mark.parametrize("place", [1, 2, 100, 201, 202, 205])
def test_damage_is_noticed_in_any_pieces(place):
    record = bytearray(encode(data_of(200)))
    record[place] ^= 1
    if place == 1:  # the length: 72
        record[place] = 0
    for size in (1, 2, 7, 300):
        with pytest.raises(DamagedRecord):
            fed(pieces(bytes(record), size))


BEFORE = [b"first", b"", data_of(200), data_of(20_000), b"last"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.ink"


def torn_ends():
    for size in (0, 1, 5, 127, 128, 300, 16_384):
        record = encode(data_of(size))
        for cut in sorted({*range(1, 7), len(record) // 2, *range(len(record) - 5, len(record))}):
            if 0 < cut < len(record):
                yield size, cut


@pytest.mark.parametrize("before", [[], BEFORE], ids=["empty", "full"])
@pytest.mark.parametrize("after", [[b"x"], [b"", data_of(300)], [data_of(40_000), b"y"]], ids=["one", "two", "large"])
def test_append_after_a_torn_end(path, before, after):
    sound = b"".join(map(encode, before))
    expected = sound + b"".join(map(encode, after))
    for size, cut in torn_ends():
        path.write_bytes(sound + encode(data_of(size))[:cut])
        with Journal(path) as journal:
            assert journal.size == len(sound)
            assert path.read_bytes() == sound
            for data in after:
                journal.append(data)
            assert journal.size == len(expected)
        assert path.read_bytes() == expected
    assert list(read(path)) == before + after


@pytest.mark.parametrize("times", [2, 5])
def test_torn_again_and_again(path, times):
    torn = encode(data_of(300))[:50]
    for number in range(times):
        with Journal(path) as journal:
            journal.append(b"%d" % number)
        with path.open("ab") as file:
            file.write(torn)
        assert list(read(path)) == [b"%d" % done for done in range(number + 1)]
    with Journal(path) as journal:
        assert journal.size == path.stat().st_size


def test_torn_end_longer_than_what_is_read_at_once(path):
    path.write_bytes(encode(b"one") + encode(data_of(500_000))[:-1])
    assert list(read(path)) == [b"one"]
    with Journal(path) as journal:
        journal.append(b"two")
    assert path.read_bytes() == encode(b"one") + encode(b"two")


def test_records_across_what_is_read_at_once(path):
    for shift in range(7):
        many = [data_of(shift)] + [data_of(size) for size in (65_528, 300, 65_225, 128)] * 3
        path.unlink(missing_ok=True)
        with Journal(path) as journal:
            for data in many:
                journal.append(data)
        assert list(read(path)) == many
        with Journal(path) as journal:
            journal.append(b"more")
        assert list(read(path)) == [*many, b"more"]


def test_nothing_is_cut_from_a_sound_file(path):
    for count in range(len(BEFORE) + 1):
        sound = b"".join(map(encode, BEFORE[:count]))
        path.write_bytes(sound)
        with Journal(path) as journal:
            assert journal.size == len(sound)
        assert path.read_bytes() == sound


def test_read_from_where_a_journal_was(path):
    sizes = [300, 0, 128, 5]
    starts = []
    with Journal(path) as journal:
        for size in sizes:
            starts.append(journal.size)
            journal.append(data_of(size))
        starts.append(journal.size)
    for index, start in enumerate(starts):
        assert list(read(path, start)) == [data_of(size) for size in sizes[index:]]


@pytest.mark.parametrize("end", [b"", encode(data_of(300))[:40]], ids=["sound end", "torn end"])
def test_damaged_file_is_refused_and_left(path, end):
    for damaged in (encode(data_of(200))[:-1] + b"?", b"\xff\xff\xff\xff"):
        content = encode(b"one") + damaged + end
        path.write_bytes(content)
        with pytest.raises(DamagedRecord):
            Journal(path)
        assert path.read_bytes() == content


def test_length_in_two_pieces():
    record = encode(b"x" * 200)
    decoder = Decoder()
    assert decoder.feed(record[:1]) + decoder.feed(record[1:]) == [b"x" * 200]


def test_what_waits_after_a_length_in_two_pieces():
    decoder = Decoder()
    decoder.feed(encode(b"x" * 300)[:1])
    decoder.feed(encode(b"x" * 300)[1:9])
    assert decoder.pending == 9


def test_how_many_records_there_are():
    whole = b"".join(encode(data_of(size)) for size in (1, 128, 300, 2))
    assert len(fed(pieces(whole, 7))) == 4


def test_lengths_of_records_that_came_byte_by_byte():
    whole = b"".join(encode(data_of(size)) for size in (129, 0, 16_384))
    assert [len(data) for data in fed(pieces(whole, 1))] == [129, 0, 16384]


def test_pending_after_each_piece():
    whole = b"".join(encode(data_of(size)) for size in (150, 7, 0, 400, 128, 3, 1000))
    decoder = Decoder()
    assert [(len(decoder.feed(piece)), decoder.pending) for piece in pieces(whole, 131)] == [
        (0, 131),
        (3, 89),
        (0, 220),
        (0, 351),
        (1, 76),
        (2, 65),
        (0, 196),
        (0, 327),
        (0, 458),
        (0, 589),
        (0, 720),
        (0, 851),
        (0, 982),
        (1, 0),
    ]


def test_where_each_record_came():
    whole = b"".join(encode(b"%d" % size * size) for size in (2, 90, 0, 64, 43, 11, 129))
    decoder = Decoder()
    came = [(place, data[-3:]) for place, byte in enumerate(pieces(whole, 1)) for data in decoder.feed(byte)]
    assert came == [(6, b"22"), (192, b"090"), (197, b""), (331, b"464"), (422, b"343"), (449, b"111"), (842, b"129")]


def test_words_over_a_slow_line():
    decoder = Decoder()
    whole = (
        encode(b"Twas brillig, " * 12) + encode(b"and the slithy toves") + encode(b"-" * 130 + b"gyre") + encode(b"")
    )
    heard = [(data.swapcase()[-9:], decoder.pending) for piece in pieces(whole, 6) for data in decoder.feed(piece)]
    assert heard == [(b"BRILLIG, ", 0), (b"THY TOVES", 5), (b"-----GYRE", 3), (b"", 0)]


def test_journal_of_a_bad_week(path):
    sizes = []
    for day in range(7):
        with Journal(path) as journal:
            sizes.append(journal.size)
            journal.append(b"day %d" % day)
            journal.append(data_of(day * 23))
            sizes.append(journal.size)
        with path.open("ab") as file:
            file.write(encode(data_of(300 - day))[: 1 + day * 41])
    assert (sizes, path.stat().st_size, [len(data) for data in read(path)]) == (
        [0, 15, 15, 53, 53, 114, 114, 198, 198, 305, 305, 435, 435, 589],
        836,
        [5, 0, 5, 23, 5, 46, 5, 69, 5, 92, 5, 115, 5, 138],
    )


def test_bytes_after_two_torn_ends(path):
    path.write_bytes(encode(b"\0a\0") + encode(b"lost for good")[:9])
    with Journal(path) as journal:
        journal.append(b"\0\0b")
    with path.open("ab") as file:
        file.write(encode(data_of(300))[:5])
    with Journal(path) as journal:
        journal.append(b"")
        journal.append(b"c\0")
    assert (
        path.read_bytes()
        == b"\x03\x00a\x00\x83\xa7\x83\xf4\x03\x00\x00b\\\xfd\xd9f\x00\x00\x00\x00\x00\x02c\x00\x0f\t*\x9b"
    )


def test_checksum_of_all_that_was_kept(path):
    path.write_bytes(encode(data_of(500)) + encode(data_of(77)) + encode(data_of(600))[:450])
    for size in (9, 260, 31):
        with Journal(path) as journal:
            journal.append(data_of(size))
        with path.open("ab") as file:
            file.write(encode(data_of(size + 200))[:size])
    assert (crc32(path.read_bytes()), path.stat().st_size) == (4089559400, 935)


def test_starts_after_torn_ends(path):
    starts = []
    for words in ([b"one", b"two"], [b"three" * 40], [], [b"", b"four"], [b"five" * 33, b"six"]):
        with Journal(path) as journal:
            for word in words:
                starts.append(journal.size)
                journal.append(word)
        with path.open("ab") as file:
            file.write(b"\x90\x01 not complete")
    assert [(start, b"|".join(data[:5] for data in read(path, start))) for start in starts[1:]] == [
        (8, b"two|three||four|fivef|six"),
        (16, b"three||four|fivef|six"),
        (222, b"|four|fivef|six"),
        (227, b"four|fivef|six"),
        (236, b"fivef|six"),
        (374, b"six"),
    ]
