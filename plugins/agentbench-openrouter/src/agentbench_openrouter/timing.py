"""Time and randomness, replaceable in tests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import attrs

from agentbench_core import Deadline

_LOOK_EVERY_SEC = 0.2


def sleep(seconds: float, deadline: Deadline) -> None:
    """Sleep, and wake up soon after the deadline has passed or was ended."""
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0 and not deadline.expired:
        time.sleep(min(remaining, _LOOK_EVERY_SEC))


@attrs.frozen(kw_only=True)
class Timing:
    """Clock, sleep and jitter for retries, in seconds."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since 1970."""
    sleep: Callable[[float, Deadline], None] = sleep
    uniform: Callable[[float, float], float] = random.uniform
