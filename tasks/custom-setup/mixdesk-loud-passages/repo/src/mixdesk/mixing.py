"""Several clips become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixdesk.clip import Clip, quantized


@dataclass(frozen=True)
class Track:
    """A clip in a mix: from which frame on, and how loud."""

    clip: Clip
    at: int = 0
    gain: float = 1.0

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ValueError(f"a track cannot begin with frame {self.at}")

    @property
    def end(self) -> int:
        """The frame after its last one."""
        return self.at + len(self.clip)


def mix(tracks: Sequence[Track]) -> Clip:
    """Add up tracks. Raises ValueError when there is none, or they do not fit together."""
    if not tracks:
        raise ValueError("nothing to mix")
    first = tracks[0].clip
    total = np.zeros((max(track.end for track in tracks), first.channels), dtype=first.dtype)
    for track in tracks:
        _check_fit(first, track.clip)
        total[track.at : track.end] += quantized(track.clip.samples * track.gain, first.dtype)
    return first.like(total)


def crossfade(first: Clip, second: Clip, frames: int) -> Clip:
    """One clip after the other, with so many frames in common. Raises ValueError."""
    _check_fit(first, second)
    if not 0 <= frames <= min(len(first), len(second)):
        raise ValueError(f"the clips have no {frames} frames to share")
    rising = np.arange(1, frames + 1)[:, np.newaxis] / (frames + 1)
    kept = len(first) - frames
    between = first.samples[kept:] * (1 - rising) + second.samples[:frames] * rising
    return first.like(np.concatenate([first.samples[:kept], between, second.samples[frames:]]))


def _check_fit(first: Clip, other: Clip) -> None:
    mine, its = ((clip.rate, clip.channels, clip.dtype) for clip in (first, other))
    if mine != its:
        raise ValueError(f"these clips do not fit together: {mine} and {its}")
