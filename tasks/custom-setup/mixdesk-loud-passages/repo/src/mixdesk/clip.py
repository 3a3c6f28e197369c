"""Clips, and the samples that they consist of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DTYPES = (np.dtype(np.int16), np.dtype(np.int32))


@dataclass(frozen=True, eq=False)
class Clip:
    """Samples of shape (frames, channels), and how many frames make a second."""

    samples: np.ndarray
    rate: int

    def __post_init__(self) -> None:
        if self.samples.ndim != 2 or self.samples.dtype not in DTYPES:
            raise ValueError(f"not samples: {self.samples.dtype} of shape {self.samples.shape}")
        own = self.samples.copy()
        own.flags.writeable = False
        object.__setattr__(self, "samples", own)

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def channels(self) -> int:
        """How many channels."""
        return self.samples.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The kind of its samples."""
        return self.samples.dtype

    @property
    def full_scale(self) -> int:
        """32768 or 2147483648."""
        return -int(np.iinfo(self.dtype).min)

    def like(self, values: np.ndarray) -> Clip:
        """A clip of the same kind with other values, which become samples."""
        return Clip(quantized(values, self.dtype), self.rate)


def quantized(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values as samples: rounded, halves to even, and cut off at both ends."""
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(values), bounds.min, bounds.max).astype(dtype)
