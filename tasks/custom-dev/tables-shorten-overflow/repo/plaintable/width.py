"""How much room text takes on a terminal, and how to make it take more or less."""

from __future__ import annotations

import unicodedata
from typing import Literal

Align = Literal["left", "right", "center"]


def char_width(char: str) -> int:
    """Columns taken by one character: 0, 1 or 2."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("F", "W") else 1


def display_width(text: str) -> int:
    """Columns taken by ``text``."""
    return sum(map(char_width, text))


def take(text: str, width: int) -> str:
    """The longest beginning of ``text`` that fits into ``width`` columns."""
    used = 0
    for index, char in enumerate(text):
        used += char_width(char)
        if used > width:
            return text[:index]
    return text


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """``text``, cut to at most ``width`` columns; ``ellipsis`` marks the cut.

    As much of the text is kept as fits; white space before the ellipsis is dropped. Where even the ellipsis does not
    fit, as much of it is kept as fits.
    """
    if display_width(text) <= width:
        return text
    room = width - len(ellipsis) + 1
    if room < 0:
        return take(ellipsis, width)
    return take(text, room).rstrip() + ellipsis


def pad(text: str, width: int, align: Align = "left") -> str:
    """``text``, filled up with spaces to ``width`` columns."""
    missing = max(0, width - display_width(text))
    if align == "right":
        return " " * missing + text
    if align == "center":
        left = missing // 2
        return " " * left + text + " " * (missing - left)
    return text + " " * missing
