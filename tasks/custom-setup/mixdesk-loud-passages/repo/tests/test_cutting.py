import numpy as np
import pytest

from mixdesk import Clip, mono, section, trimmed

STEREO = Clip(np.array([[1, -2], [0, 900], [5, 5], [700, 1], [3, 3]], dtype=np.int16), 8000)


def test_section() -> None:
    assert section(STEREO, 1, 3).samples.tolist() == [[0, 900], [5, 5]]
    assert len(section(STEREO, 2, 2)) == 0
    with pytest.raises(ValueError, match="no frames"):
        section(STEREO, 3, 6)


def test_trimmed() -> None:
    assert trimmed(STEREO, 0.01).samples.tolist() == [[0, 900], [5, 5], [700, 1]]
    assert len(trimmed(STEREO, 0.5)) == 0


def test_mono() -> None:
    assert mono(STEREO).samples.tolist() == [[0], [450], [5], [350], [3]]
