"""How long a server asks the client to wait, from all known places in a response."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from typing import Any


def hint_of(
    headers: Mapping[str, str],
    metadata: Mapping[str, Any],
    availability: Mapping[str, Any],
    *,
    wall: float,
    limited: bool,
) -> float | None:
    """Seconds to wait, or ``None``.

    Args:
        headers: headers of the response, with lowercase names.
        metadata: metadata of the error; may contain the headers of the upstream provider.
        availability: the ``availability`` object of the error; may contain ``retry_after``.
        wall: seconds since 1970.
        limited: whether this is a rate limit error, so that the reset time of the limit counts.
    """
    inner = metadata.get("headers")
    inner = {str(name).lower(): value for name, value in inner.items()} if isinstance(inner, dict) else {}
    for known in (headers, inner):
        result = _scaled(known.get("retry-after-ms"), 0.001)
        if result is None:
            result = _retry_after(known.get("retry-after"), wall)
        if result is not None:
            return result
    result = number_of(availability.get("retry_after"))
    if result is None and limited:
        resets = (_reset(known.get("x-ratelimit-reset"), wall) for known in (headers, inner))
        result = next((reset for reset in resets if reset is not None), None)
    return result


def _retry_after(value: object, wall: float) -> float | None:
    seconds = number_of(value)
    if seconds is not None or not isinstance(value, str):
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - wall)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _reset(value: object, wall: float) -> float | None:
    """Seconds until a reset. OpenRouter sends milliseconds since 1970; seconds are also accepted."""
    at = number_of(value)
    if at is None or at < 1e9:
        return None
    return max(0.0, (at / 1000 if at > 1e11 else at) - wall)


def _scaled(value: object, factor: float) -> float | None:
    number = number_of(value)
    return None if number is None else number * factor


def number_of(value: object) -> float | None:
    """A finite number of at least 0, even if written as text; ``None`` for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
