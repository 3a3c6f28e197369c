"""How long there is time."""

from __future__ import annotations

from time import monotonic


class Deadline:
    """A point in time, or none at all."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else monotonic() + timeout

    def remaining(self) -> float | None:
        """The seconds until then, not less than none; None if there is no end."""
        return None if self._end is None else max(self._end - monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self.remaining() == 0.0
