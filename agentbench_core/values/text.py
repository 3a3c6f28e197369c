"""Sanitize untrusted text for terminals, and shorten it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_NAMED = 5  # maximum number of names in a message
_LONGEST = 200  # maximum number of characters in a name

# Control characters (C0, C1), changes to text direction, other line separators, lone surrogates.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape_control(text: str) -> str:
    """Escape control characters (except \\n and \\t), which could move the cursor or hide text, as ``\\uNNNN``.

    The result is equivalent inside a JSON document.
    """
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shorten(text: str, most: int) -> str:
    """A text of at most ``most`` characters: a longer one is cut, after a word if possible, and ends with ``...``."""
    if len(text) <= most:
        return text
    retained = text[: most - 4]
    words = re.match(r"(?s).*(?=\s)", text[: most - 3])
    cut = words[0].rstrip() if words else ""
    return f"{cut if len(cut) > most // 2 else retained} ..."


def printable(path: str) -> str:
    """A path for a message or a record: bytes that are not UTF-8 become ``\\xNN``."""
    try:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte, from JSON of another program
        return escape_control(path)


def name_some(names: Sequence[str]) -> str:
    """Names for a message: the first ones, and the number of others."""
    more = len(names) - _NAMED
    return ", ".join(map(short_name, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def short_name(name: str) -> str:
    """A path or message, shortened if it is long: some have 65,000 characters."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def quantity(count: int, noun: str) -> str:
    """A number with its noun, whose plural ends with an s: ``1 run``, ``2 runs``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def size_text(count: float) -> str:
    """A human-readable number of bytes: ``1.4 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
