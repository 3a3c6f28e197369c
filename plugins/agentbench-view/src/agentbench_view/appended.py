"""Read, piece by piece, a file of lines that another process appends to.

The file may be replaced (``runs rebuild``), shortened, or removed at any time, and may contain anything.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

BLOCK = 1 << 20
MAX_LINE = 16 << 20
"""The maximum size of a line, in bytes. Longer lines are skipped, so that a file without newlines uses no memory."""


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without following a link in its place. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


@attrs.frozen
class Piece:
    """Complete lines, with the position of the first one in the file."""

    start: int
    lines: bytes


@attrs.define
class AppendedFile:
    """A file of lines, and the position up to which it has been read."""

    path: Path
    end: int = 0
    """The position after the last line that was read, or in the middle of a line that is too long."""
    _identity: tuple[int, int] = (0, 0)
    _skipping: bool = False

    def is_new(self) -> bool:
        """Whether the file has been replaced. If so, start over with :meth:`restart`. Raises OSError."""
        status = self.path.stat(follow_symlinks=False)
        return (status.st_dev, status.st_ino) != self._identity or status.st_size < self.end

    def restart(self) -> None:
        """Read from the start again. Raises OSError."""
        status = self.path.stat(follow_symlinks=False)
        self._identity, self.end, self._skipping = (status.st_dev, status.st_ino), 0, False

    def read(self) -> Iterator[Piece]:
        """The complete lines since the last call, in pieces of about a megabyte. Raises OSError."""
        for piece, end, skipping in self._pieces(self.end, None, self._skipping):
            self.end, self._skipping = end, skipping
            if piece.lines:
                yield piece

    def between(self, start: int, end: int) -> Iterator[Piece]:
        """The complete lines between two positions. ``start`` must be the start of a line. Raises OSError."""
        return (piece for piece, _, _ in self._pieces(start, end, False))

    def _pieces(self, start: int, end: int | None, skipping: bool) -> Iterator[tuple[Piece, int, bool]]:
        """Each piece, the position after it, and whether this position is in the middle of a line that is too long."""
        with os.fdopen(open_regular(self.path), "rb", buffering=0) as file:
            file.seek(start)
            rest, position = b"", start
            while end is None or position + len(rest) < end:
                size = BLOCK if end is None else min(BLOCK, end - position - len(rest))
                block = file.read(size)
                if not block:
                    return
                data = rest + block
                cut = data.rfind(b"\n") + 1
                if cut:
                    first = data.find(b"\n") + 1 if skipping else 0
                    piece, rest, skipping = Piece(position + first, data[first:cut]), data[cut:], False
                elif skipping or len(data) > MAX_LINE:
                    cut = len(data)
                    piece, rest, skipping = Piece(position, b""), b"", True
                else:
                    rest = data
                    continue
                position += cut
                yield piece, position, skipping
