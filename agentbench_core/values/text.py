"""Text from outside, made fit for a terminal, and for a line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_NAMED = 5  # names that a message has before it only counts
_LONGEST = 200  # characters of a name

# Control characters (C0, C1), what turns the direction of writing around, other ends of lines, halves of characters.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape_control(text: str) -> str:
    """What could move a cursor, recolour, set a clipboard or hide itself becomes ``\\uNNNN``; newline and tab stay.

    In a JSON document it means the same as before.
    """
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shorten(text: str, most: int) -> str:
    """At most so many characters of a text: cut after a word, or within one that is very long, and then ``...``."""
    if len(text) <= most:
        return text
    kept = text[: most - 4]
    words = re.match(r"(?s).*(?=\s)", text[: most - 3])
    whole = words[0].rstrip() if words else ""
    return f"{whole if len(whole) > most // 2 else kept} ..."


def printable(path: str) -> str:
    """A path for a message or a record: bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def name_some(names: Sequence[str]) -> str:
    """Names for a message; of many, the first ones and how many more."""
    more = len(names) - _NAMED
    return ", ".join(map(short_name, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def short_name(name: str) -> str:
    """A path may have 65 000 characters, and so may a message that names one."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
