"""From data to records."""

from __future__ import annotations

from zlib import crc32

MAX_LENGTH = (1 << 28) - 1


def encode(data: bytes) -> bytes:
    """One record."""
    return encode_length(len(data)) + data + crc32(data).to_bytes(4, "big")


def encode_length(length: int) -> bytes:
    """A length in groups of seven bits, the lowest first."""
    if length > MAX_LENGTH:
        raise ValueError(f"a record has at most {MAX_LENGTH} bytes, not {length}")
    encoded = bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
