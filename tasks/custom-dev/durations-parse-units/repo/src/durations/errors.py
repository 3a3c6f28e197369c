"""The one exception of this package."""

from __future__ import annotations


class DurationError(ValueError):
    """The text is not a duration. ``position`` is where reading stopped, counted from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"{text!r} is not a duration: {reason} at position {position}")
        self.text = text
        self.position = position
        self.reason = reason
