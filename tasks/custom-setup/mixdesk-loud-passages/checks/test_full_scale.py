# agentbench-canary: 32e8e203-caac-4acb-9faa-5f71000ecd79
"""Up to full scale, with both numbers of bits; held against whole numbers and fractions of Python."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from mixdesk import Clip, Track, amplified, crossfade, mix, mono, normalized, peak, rms, section, trimmed

RATE = 8000
BOTH = pytest.mark.parametrize("dtype", [np.int16, np.int32], ids=["16 bits", "32 bits"])


def bounds(dtype):
    """The lowest and the highest sample, as numbers of Python."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def clip(frames, dtype):
    """A clip from whole numbers, or from lists of them."""
    rows = [frame if isinstance(frame, list) else [frame] for frame in frames]
    return Clip(np.array(rows, dtype=dtype).reshape(len(rows), -1 if rows else 1), RATE)


def values(clip):
    return clip.samples.ravel().tolist()


def sample(value, dtype):
    """What the README makes of an exact result."""
    low, high = bounds(dtype)
    return min(max(round(Fraction(value)), low), high)  # round() takes halves to the even number


def noise(choose, dtype, frames, channels):
    """Samples of all sizes, the outermost ones among them."""
    low, high = bounds(dtype)
    kinds = (lambda: choose.randint(low, high), lambda: choose.randint(-3, 3), lambda: choose.choice([low, high]))
    return [[choose.choice(kinds)() for _ in range(channels)] for _ in range(frames)]


@BOTH
@pytest.mark.parametrize("seed", range(10))
def test_any_mix(dtype, seed):
    choose = random.Random(seed)
    channels = choose.randint(1, 3)
    parts = [
        (
            noise(choose, dtype, choose.randint(1, 30), channels),
            choose.randrange(20),
            choose.choice([1, 1.0, 0.5, -0.75, 2, -3]),
        )
        for _ in range(choose.randint(1, 6))
    ]
    exact = [[Fraction(0)] * channels for _ in range(max(at + len(frames) for frames, at, _ in parts))]
    for frames, at, gain in parts:
        for number, frame in enumerate(frames):
            exact[at + number] = [
                old + new * Fraction(gain) for old, new in zip(exact[at + number], frame, strict=True)
            ]
    mixed = mix([Track(clip(frames, dtype), at=at, gain=gain) for frames, at, gain in parts])
    assert mixed.samples.tolist() == [[sample(value, dtype) for value in frame] for frame in exact]
    assert (mixed.dtype, mixed.rate) == (dtype, RATE)


@BOTH
def test_cut_off_in_the_sum_of_all(dtype):
    low, high = bounds(dtype)
    loud = [Track(clip([low, high, high], dtype)) for _ in range(3)]
    opposite = [Track(clip([low, high, low], dtype), gain=-1) for _ in range(3)]
    soft = Track(clip([5, -7, 0], dtype))
    for tracks in itertools.permutations([*loud, *opposite[:2], soft], 6):
        assert values(mix(tracks)) == [sample(low + 5, dtype), sample(high - 7, dtype), high]
    assert values(mix([*loud, *opposite, soft])) == [5, -7, high]


@BOTH
def test_rounded_in_the_sum_of_all(dtype):
    one = clip([1, 3, -1, 5], dtype)
    assert values(mix([Track(one, gain=0.5)])) == [0, 2, 0, 2]
    assert values(mix([Track(one, gain=0.5)] * 2)) == [1, 3, -1, 5]
    assert values(mix([Track(one, gain=0.25)] * 3)) == [1, 2, -1, 4]


@BOTH
def test_many_tracks(dtype):
    low, high = bounds(dtype)
    loud = Track(clip([high, low], dtype))
    assert values(mix([loud] * 70)) == [high, low]
    assert values(mix([Track(loud.clip, gain=1 / 64)] * 64)) == [high, low]


def test_every_bit_of_32():
    odd = clip([16777217, -1073741823, 2147483645], np.int32)
    assert values(mix([Track(odd)])) == [16777217, -1073741823, 2147483645]
    assert values(mix([Track(odd), Track(clip([1, 1, 1], np.int32))])) == [16777218, -1073741822, 2147483646]
    assert values(amplified(odd, -1)) == [-16777217, 1073741823, -2147483645]
    assert values(crossfade(odd, odd, 3)) == [16777217, -1073741823, 2147483645]


@BOTH
def test_peak(dtype):
    low, high = bounds(dtype)
    assert peak(clip([low], dtype)) == 1.0
    assert peak(clip([[0, low], [high, 3]], dtype)) == 1.0
    assert peak(clip([low + 1, 5], dtype)) == peak(clip([high], dtype)) == high / -low
    assert peak(clip([low // 4, 1], dtype)) == 0.25


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_rms(dtype, seed):
    low, high = bounds(dtype)
    frames = noise(random.Random(seed), dtype, 50, 2)
    squares = [number**2 for frame in frames for number in frame]
    assert rms(clip(frames, dtype)) == pytest.approx(math.sqrt(Fraction(sum(squares), len(squares))) / -low, rel=1e-12)


@BOTH
def test_rms_of_steady_tones(dtype):
    low, _ = bounds(dtype)
    for part in (1, 2, 4, 64, 128):
        assert round(rms(clip([low // part, low // part] * 500, dtype)), 12) == 1 / part
    assert rms(clip([], dtype)) == rms(clip([0, 0], dtype)) == 0.0


@BOTH
@pytest.mark.parametrize("gain", [2, 2.0, -1, 3, 0.5, 100000, 0])
def test_amplified(dtype, gain):
    frames = noise(random.Random(7), dtype, 60, 1)
    expected = [sample(number * Fraction(gain), dtype) for frame in frames for number in frame]
    assert values(amplified(clip(frames, dtype), gain)) == expected


@BOTH
def test_normalized(dtype):
    low, high = bounds(dtype)
    assert values(normalized(clip([low, 1024, 0], dtype), 0.5)) == [low // 2, 512, 0]
    assert values(normalized(clip([low, low // 2], dtype), 1)) == [low, low // 2]
    assert values(normalized(clip([low // 2, -low // 4], dtype), 1)) == [low, -low // 2]
    assert values(normalized(clip([-low // 2, 2], dtype), 1.0)) == [high, 4]
    assert values(normalized(clip([0, 0], dtype), 1.0)) == [0, 0]
    assert values(normalized(clip([], dtype), 1.0)) == []


@BOTH
def test_trimmed(dtype):
    low, high = bounds(dtype)
    beat = clip([[0, 1], [low, 0], [2, 2], [0, low], [1, 0]], dtype)
    assert values(trimmed(beat, 0.5)) == [low, 0, 2, 2, 0, low]
    assert values(trimmed(clip([0, high, 0, low, 0], dtype), 0.9)) == [high, 0, low]
    assert values(trimmed(clip([low // 2, low // 2 - 1, low // 2], dtype), 0.5)) == [low // 2 - 1]
    assert len(trimmed(clip([low, high], dtype), 1)) == 0
    assert len(trimmed(clip([], dtype), 0)) == 0


@BOTH
def test_mono_and_crossfade(dtype):
    low, high = bounds(dtype)
    assert values(mono(clip([[low, low], [high, high], [low, high], [1, 2]], dtype))) == [low, high, 0, 2]
    assert values(crossfade(clip([low] * 4, dtype), clip([low] * 4, dtype), 3)) == [low] * 5
    assert values(crossfade(clip([high] * 2, dtype), clip([low] * 2, dtype), 1)) == [high, 0, low]


@BOTH
def test_no_clip_changes(dtype):
    low, high = bounds(dtype)
    frames = [[low, high], [3, -3], [0, 0]]
    loud = clip(frames, dtype)
    results = [
        mix([Track(loud), Track(loud, at=1, gain=-1)]),
        crossfade(loud, loud, 2),
        amplified(loud, 2),
        normalized(loud, 0.25),
        trimmed(loud, 0),
        section(loud, 0, 2),
        mono(loud),
    ]
    assert loud.samples.tolist() == frames
    for result in results:
        assert (result.dtype, result.rate) == (dtype, RATE)
        with pytest.raises(ValueError, match="read-only"):
            result.samples[0] = 1


def test_still_refused():
    short, long = clip([1, 2], np.int16), clip([1, 2], np.int32)
    for refused in (
        lambda: mix([]),
        lambda: mix([Track(short), Track(long)]),
        lambda: mix([Track(short), Track(Clip(short.samples, 44100))]),
        lambda: crossfade(short, long, 1),
        lambda: crossfade(short, short, 3),
        lambda: Clip(np.zeros((2, 1)), RATE),
        lambda: Clip(np.zeros((2, 1), dtype=np.int64), RATE),
        lambda: section(short, 1, 3),
    ):
        with pytest.raises(ValueError):
            refused()


def test_three_voices():
    voices = [[30000, -32768, 12345, 32767, -7], [25001, 25003, -25005, -32768, 32767], [-9999, 31111, -31113]]
    tracks = [Track(clip(voice, np.int16), at=2 * place) for place, voice in enumerate(voices)]
    softer = [Track(track.clip, at=track.at, gain=0.75) for track in tracks]
    turned = [Track(track.clip, at=track.at, gain=-1.5) for track in reversed(tracks)]
    assert [values(mix(some)) for some in (tracks, softer, turned, [*softer, turned[0]], [*turned, *tracks])] == [
        [30000, -32768, 32767, 32767, -32768, -1657, 1654],
        [22500, -24576, 28010, 32767, -26258, -1243, 1240],
        [-32768, 32767, -32768, -32768, 32767, 2486, -2481],
        [22500, -24576, 28010, 32767, -11260, -32768, 32767],
        [-15000, 16384, -18673, -28885, 17506, 828, -827],
    ]


def test_stereo_of_32_bits():
    left_and_right = [[(frame * 1234567891) % 4294967296 - 2147483648, frame * -268435457] for frame in range(8)]
    tone = clip(left_and_right, np.int32)
    tracks = [Track(tone), Track(tone, at=3, gain=2), Track(tone, at=1, gain=-0.5), Track(tone, gain=0.25)]
    assert mix(tracks).samples.tolist() == [
        [-2147483648, 0],
        [-67402872, -335544321],
        [858523046, -536870914],
        [-2147483648, -738197507],
        [-2147483648, -1476395014],
        [1058379597, -2147483648],
        [2147483647, -2147483648],
        [-2147483648, -2147483648],
        [508498524, -1744830470],
        [1929912804, -2147483648],
        [-2147483648, -2147483648],
    ]


def test_meters():
    low, high = bounds(np.int16)
    clips = [
        [20000, -20000, 20000],
        [low, high, 0, 0, 0],
        [low, low // 2, 100],
        [12345, -23456, 31000, -4321],
        [1000, -181, 182, 200],
        [250, -251, 252],
    ]
    assert [(peak(clip(frames, np.int16)), round(rms(clip(frames, np.int16)), 8)) for frames in clips] == [
        (0.6103515625, 0.61035156),
        (1.0, 0.63244588),
        (1.0, 0.64549963),
        (0.946044921875, 0.62584366),
        (0.030517578125, 0.01604631),
        (0.0076904296875, 0.00765995),
    ]


def test_meters_of_32_bits():
    low, high = bounds(np.int32)
    clips = [[low, 0, 0], [46341, -46341], [2**30, low, high, 3**19], [5**13, -(7**11), 65536], [low, -high, 2**29]]
    assert [(peak(clip(frames, np.int32)), round(rms(clip(frames, np.int32)), 10)) for frames in clips] == [
        (1.0, 0.5773502692),
        (2.1579209715127945e-05, 2.15792e-05),
        (1.0, 0.7973266696),
        (0.9207645165733993, 0.6247465413),
        (1.0, 0.8291561974),
    ]


def test_as_loud_as_asked():
    frames = [-32768, 20000, -12346, 8191, 31, -1]
    levels = [1.0, 0.75, 0.5, 0.3125, 0.125, 0.0]
    assert [values(normalized(clip(frames, np.int16), level)) for level in levels] == [
        [-32768, 20000, -12346, 8191, 31, -1],
        [-24576, 15000, -9260, 6143, 23, -1],
        [-16384, 10000, -6173, 4096, 16, 0],
        [-10240, 6250, -3858, 2560, 10, 0],
        [-4096, 2500, -1543, 1024, 4, 0],
        [0, 0, 0, 0, 0, 0],
    ]


def test_gains_that_are_whole_numbers():
    frames = [17000, -9000, 11000, -32768, 5461, -1]
    assert [values(amplified(clip(frames, np.int16), gain)) for gain in (2, 3, 6, -1, -5, 12)] == [
        [32767, -18000, 22000, -32768, 10922, -2],
        [32767, -27000, 32767, -32768, 16383, -3],
        [32767, -32768, 32767, -32768, 32766, -6],
        [-17000, 9000, -11000, 32767, -5461, 1],
        [-32768, 32767, -32768, 32767, -27305, 5],
        [32767, -32768, 32767, -32768, 32767, -12],
    ]


def test_what_is_left_between_quiet_ends():
    low, high = bounds(np.int16)
    frames = [[5, -5], [low // 4, 9], [low, 0], [300, -400], [0, high], [77, low], [low // 2, 1], [8, 8]]
    levels = [0, 0.001, 0.125, 0.25, 0.5, 0.75, 0.99999, 1]
    assert [[sum(frame) for frame in trimmed(clip(frames, np.int16), level).samples.tolist()] for level in levels] == [
        [0, -8183, -32768, -100, 32767, -32691, -16383, 16],
        [-8183, -32768, -100, 32767, -32691, -16383],
        [-8183, -32768, -100, 32767, -32691, -16383],
        [-32768, -100, 32767, -32691, -16383],
        [-32768, -100, 32767, -32691],
        [-32768, -100, 32767, -32691],
        [-32768, -100, 32767, -32691],
        [],
    ]


def test_a_whole_piece():
    low, high = bounds(np.int16)
    drums = clip([low if beat % 3 == 0 else (beat * 7919) % 32768 for beat in range(12)], np.int16)
    horns = clip([[high - beat * 4000, low + beat * 4001] for beat in range(12)], np.int16)
    both = mix([Track(mono(horns), at=2, gain=16), Track(drums, gain=1.5), Track(amplified(drums, -1), at=5)])
    assert (
        " ".join(map(str, values(crossfade(both, normalized(drums, 0.5), 3))[::-2]))
        == "10786 -16384 11332 3414 -16384 -4847 -30504 32767 -32768 18192 32767 -32768 11878"
    )
