"""From bytes, which may come in any pieces, to data."""

from __future__ import annotations

from zlib import crc32

CHECKSUM_SIZE = 4
MAX_LENGTH_SIZE = 4


class DamagedRecord(ValueError):
    """The bytes are not those that were written."""


class Decoder:
    """Takes the bytes of a journal piece by piece, and gives the data of its records."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None

    @property
    def pending(self) -> int:
        """How many bytes there are of the record that is not complete yet."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the records that are complete now. Raises DamagedRecord."""
        self._buffer += chunk
        records: list[bytes] = []
        while True:
            if self._length is None:
                self._length = self._take_length()
            if self._length is None or len(self._buffer) < self._length + CHECKSUM_SIZE:
                return records
            data = self._take(self._length)
            if crc32(data) != int.from_bytes(self._take(CHECKSUM_SIZE), "big"):
                raise DamagedRecord(f"the checksum of a record with {len(data)} bytes is wrong")
            records.append(data)
            self._length = None

    def _take_length(self) -> int | None:
        length = 0
        for index in range(MAX_LENGTH_SIZE):
            if not self._buffer:
                return None
            byte = self._take(1)[0]
            length |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return length
        raise DamagedRecord(f"a length takes at most {MAX_LENGTH_SIZE} bytes")

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken
