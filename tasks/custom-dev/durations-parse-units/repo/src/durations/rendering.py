"""From timedelta to text that ``parse`` reads back."""

from __future__ import annotations

from datetime import timedelta

_SCALE = (
    ("w", "week", 7 * 86_400_000),
    ("d", "day", 86_400_000),
    ("h", "hour", 3_600_000),
    ("m", "minute", 60_000),
    ("s", "second", 1000),
    ("ms", "millisecond", 1),
)


def render(duration: timedelta, *, long: bool = False) -> str:
    """Write ``duration``, rounded to the millisecond: ``1h 30m``, or ``1 hour, 30 minutes`` if ``long``."""
    rest = round(duration / timedelta(milliseconds=1))
    sign, rest = ("-", -rest) if rest < 0 else ("", rest)
    parts = []
    for short_name, name, size in _SCALE:
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount} {name}{'s' if amount != 1 else ''}" if long else f"{amount}{short_name}")
    if not parts:
        return "0 seconds" if long else "0s"
    return sign + (", " if long else " ").join(parts)
