"""The one exception of this package."""

from __future__ import annotations


class QueryError(ValueError):
    """The text is not a search expression. ``position`` is where reading stopped, counted from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"{text!r}: {reason} at position {position}")
        self.text = text
        self.position = position
        self.reason = reason
