"""Cut, level and mix audio clips."""

from mixdesk.clip import Clip
from mixdesk.cutting import mono, section, trimmed
from mixdesk.levels import amplified, normalized, peak, rms
from mixdesk.mixing import Track, crossfade, mix

__all__ = [
    "Clip",
    "Track",
    "amplified",
    "crossfade",
    "mix",
    "mono",
    "normalized",
    "peak",
    "rms",
    "section",
    "trimmed",
]
