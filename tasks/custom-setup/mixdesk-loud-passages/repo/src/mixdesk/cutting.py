"""Parts of clips."""

from __future__ import annotations

import numpy as np

from mixdesk.clip import Clip


def section(clip: Clip, start: int, end: int) -> Clip:
    """The frames from ``start`` up to, but not including, ``end``. Raises ValueError."""
    if not 0 <= start <= end <= len(clip):
        raise ValueError(f"no frames {start} to {end} in a clip of {len(clip)}")
    return Clip(clip.samples[start:end], clip.rate)


def trimmed(clip: Clip, level: float) -> Clip:
    """The clip without the quiet frames at both ends."""
    loud = np.flatnonzero((np.abs(clip.samples) > level * clip.full_scale).any(axis=1))
    return section(clip, loud[0], loud[-1] + 1) if loud.size else section(clip, 0, 0)


def mono(clip: Clip) -> Clip:
    """One channel, the mean of all."""
    return clip.like(clip.samples.mean(axis=1, keepdims=True))
