"""The checksum of a frame."""

from __future__ import annotations

from binascii import crc_hqx

SIZE = 2


def checksum(data: bytes) -> bytes:
    """The checksum, high byte first."""
    return crc_hqx(data, 0xFFFF).to_bytes(SIZE, "big")
