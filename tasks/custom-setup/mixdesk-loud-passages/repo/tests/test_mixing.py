import numpy as np
import pytest

from mixdesk import Clip, Track, crossfade, mix


def clip(*samples: int, dtype: type = np.int16, rate: int = 8000) -> Clip:
    return Clip(np.array(samples, dtype=dtype).reshape(-1, 1), rate)


def values(clip: Clip) -> list[int]:
    return clip.samples.ravel().tolist()


def test_mix() -> None:
    voice = clip(100, -200, 300)
    mixed = mix([Track(voice), Track(voice, at=1, gain=0.5)])
    assert values(mixed) == [100, -150, 200, 150]
    assert (mixed.dtype, mixed.rate) == (np.int16, 8000)


def test_mix_stereo() -> None:
    beat = Clip(np.array([[1, 2], [3, 4]], dtype=np.int32), 8000)
    assert mix([Track(beat), Track(beat, at=2, gain=-2)]).samples.tolist() == [[1, 2], [3, 4], [-2, -4], [-6, -8]]


def test_too_loud() -> None:
    shout = clip(20000, -20000, 5000)
    assert values(mix([Track(shout), Track(shout)])) == [32767, -32768, 10000]


@pytest.mark.parametrize(
    "other", [clip(1, rate=44100), clip(1, dtype=np.int32), Clip(np.zeros((1, 2), dtype=np.int16), 8000)]
)
def test_what_does_not_fit(other: Clip) -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        mix([Track(clip(1)), Track(other)])
    with pytest.raises(ValueError, match="do not fit together"):
        crossfade(clip(1), other, 1)


def test_nothing_to_mix() -> None:
    with pytest.raises(ValueError, match="nothing to mix"):
        mix([])


def test_crossfade() -> None:
    assert values(crossfade(clip(8, 8, 8, 8), clip(80, 80, 80, 80), 3)) == [8, 26, 44, 62, 80]
    assert values(crossfade(clip(1, 2), clip(3), 0)) == [1, 2, 3]
