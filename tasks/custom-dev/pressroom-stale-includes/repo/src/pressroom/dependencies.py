"""Which templates have a part in a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pressroom.sources import Source

Dependencies = Mapping[str, str | None]
"""Names of templates, and the fingerprint each had; None for one that did not exist."""


class Recorder:
    """Notes dependencies while texts are rendered within each other."""

    def __init__(self) -> None:
        self._frames: list[dict[str, str | None]] = []

    @contextmanager
    def frame(self) -> Iterator[dict[str, str | None]]:
        """Collect what is recorded within the ``with`` block; it also counts for the frame around."""
        frame: dict[str, str | None] = {}
        self._frames.append(frame)
        try:
            yield frame
        finally:
            self._frames.pop()
            if self._frames:
                self._frames[-1].update(frame)

    def record(self, dependencies: Dependencies) -> None:
        """Note dependencies of the innermost frame."""
        if self._frames:
            self._frames[-1].update(dependencies)


def unchanged(dependencies: Dependencies, source: Source) -> bool:
    """Whether every template still is what it was."""
    return all(source.fingerprint(name) == fingerprint for name, fingerprint in dependencies.items())
