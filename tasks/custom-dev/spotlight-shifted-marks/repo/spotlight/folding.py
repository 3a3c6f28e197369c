"""Take away what readers do not care about."""

from __future__ import annotations

import unicodedata


def fold(text: str) -> str:
    """``text`` without case and accents, to be compared with other folded text."""
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
