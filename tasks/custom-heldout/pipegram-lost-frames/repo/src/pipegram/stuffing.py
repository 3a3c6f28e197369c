"""Keep flags out of the content of frames."""

from __future__ import annotations

FLAG = 0x7C
ESCAPE = 0x5C


def is_special(byte: int) -> bool:
    """Whether the byte never occurs in the content as it is."""
    return byte in (FLAG, ESCAPE)


def turned(byte: int) -> int:
    """What comes after an escape instead of the byte, and the other way round."""
    return byte ^ 0x40


def stuff(data: bytes) -> bytes:
    """Replace flags and escapes."""
    stuffed = bytearray()
    for byte in data:
        stuffed += bytes((ESCAPE, turned(byte)) if is_special(byte) else (byte,))
    return bytes(stuffed)
