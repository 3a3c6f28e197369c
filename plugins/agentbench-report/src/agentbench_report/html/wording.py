"""Formatting of numbers and names on the page."""

from __future__ import annotations

import math

NONE = "–"  # noqa: RUF001 - an en dash for missing values


def share(value: float | None) -> str:
    """A rate between 0 and 1 as a percentage."""
    return NONE if value is None else f"{value:.1%}"


def seconds(value: float | None) -> str:
    """A duration: in milliseconds below one second, and in minutes and hours from two minutes."""
    if value is None or not math.isfinite(value):  # sums of untrusted durations
        return NONE
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def usd(value: float | None) -> str:
    """US dollars, with four decimals for amounts below 100 other than 0."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 100 or value == 0 else f"${value:.4f}"


def count(value: float) -> str:
    """An integer with thousands separators."""
    return f"{value:,}"


def words(name: str) -> str:
    """``tool_call`` as ``tool call``."""
    return name.replace("_", " ")
