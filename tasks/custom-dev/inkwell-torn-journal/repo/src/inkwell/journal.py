"""Journals in files."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from types import TracebackType
from typing import BinaryIO

from inkwell.decoder import Decoder
from inkwell.encoder import encode

CHUNK_SIZE = 1 << 16


def read(path: str | PathLike[str], start: int = 0) -> Iterator[bytes]:
    """The records of a journal, from the byte ``start`` on. One at the end that is not complete is left out."""
    with open(path, "rb") as file:
        file.seek(start)
        yield from _records(file, Decoder())


class Journal:
    """A journal that records are appended to."""

    def __init__(self, path: str | PathLike[str]) -> None:
        with open(path, "ab"):
            pass  # it is there now
        self._file = open(path, "r+b", buffering=0)
        try:
            self._cut_off_what_is_not_complete()
        except BaseException:
            self._file.close()
            raise

    @property
    def size(self) -> int:
        """Where the next record will begin."""
        return self._file.tell()

    def append(self, data: bytes) -> None:
        """Write one record."""
        self._file.write(encode(data))

    def close(self) -> None:
        """Nothing can be appended any more."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _cut_off_what_is_not_complete(self) -> None:
        decoder = Decoder()
        for _ in _records(self._file, decoder):
            pass
        if decoder.pending:
            self._file.truncate(self._file.tell() - decoder.pending)


def _records(file: BinaryIO, decoder: Decoder) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_SIZE):
        yield from decoder.feed(chunk)
