"""The one exception of this package."""

from __future__ import annotations


class PropertiesError(ValueError):
    """The text is not a properties file; ``line`` is the line number, counted from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line
