"""How loud a clip is, and how to make it louder."""

from __future__ import annotations

import numpy as np

from mixdesk.clip import Clip


def peak(clip: Clip) -> float:
    """The largest magnitude of any sample, as a part of full scale."""
    return float(np.abs(clip.samples).max(initial=0)) / clip.full_scale


def rms(clip: Clip) -> float:
    """The square root of the mean of the squares, as a part of full scale."""
    if not clip.samples.size:
        return 0.0
    return float(np.sqrt(np.mean(np.square(clip.samples)))) / clip.full_scale


def amplified(clip: Clip, gain: float) -> Clip:
    """The clip, louder or softer."""
    return clip.like(clip.samples * gain)


def normalized(clip: Clip, level: float) -> Clip:
    """The clip with this peak, or as near to it as samples can be."""
    loudest = peak(clip)
    return clip if loudest == 0 else amplified(clip, level / loudest)
