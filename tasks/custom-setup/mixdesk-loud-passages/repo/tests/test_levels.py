import numpy as np
import pytest

from mixdesk import Clip, amplified, normalized, peak, rms


def clip(*samples: int, dtype: type = np.int16) -> Clip:
    return Clip(np.array(samples, dtype=dtype).reshape(-1, 1), 8000)


def test_peak() -> None:
    assert peak(clip(10, -16384, 300)) == 0.5
    assert peak(clip(10, 2**30, dtype=np.int32)) == 0.5
    assert peak(clip()) == 0.0


def test_rms() -> None:
    assert rms(clip(30, -40, 30, 40)) == pytest.approx(np.sqrt(1250) / 32768)
    assert rms(clip(0, 0)) == rms(clip()) == 0.0


def test_amplified() -> None:
    assert amplified(clip(1, 3, -3, 20000, -20000), 2.5).samples.ravel().tolist() == [2, 8, -8, 32767, -32768]


def test_normalized() -> None:
    louder = normalized(clip(100, -200, 0), 0.5)
    assert louder.samples.ravel().tolist() == [8192, -16384, 0]
    assert normalized(clip(0, 0), 0.5).samples.ravel().tolist() == [0, 0]


@pytest.mark.parametrize("samples", [np.zeros(3, dtype=np.int16), np.zeros((3, 1)), np.zeros((3, 1), dtype=np.uint8)])
def test_not_samples(samples: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not samples"):
        Clip(samples, 8000)


def test_a_clip_never_changes() -> None:
    samples = np.array([[1], [2]], dtype=np.int16)
    one = Clip(samples, 8000)
    samples[0] = 9
    assert one.samples.ravel().tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        one.samples[0] = 9
