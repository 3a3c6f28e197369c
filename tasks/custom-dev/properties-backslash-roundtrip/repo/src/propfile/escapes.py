"""Backslash escapes, in both directions."""

from __future__ import annotations

import re

_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {char: "\\" + letter for letter, char in _LETTERS.items()} | {"\\": "\\\\"}

_UNICODE = re.compile(r"\\u([0-9A-Fa-f]{4})?")
_OTHER = re.compile(r"\\(.)", re.DOTALL)


def unescape(text: str) -> str:
    """Replace the escapes in a key or value. Raises ValueError for a malformed ``\\u``."""
    for letter, char in _LETTERS.items():
        text = text.replace("\\" + letter, char)
    text = _UNICODE.sub(_code_unit, text)
    text = _OTHER.sub(r"\1", text)
    return _join_surrogates(text)


def _code_unit(match: re.Match[str]) -> str:
    if match[1] is None:
        raise ValueError("\\u needs four hexadecimal digits")
    return chr(int(match[1], 16))


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def escape_value(text: str, *, ascii_only: bool = False) -> str:
    """Write ``text`` as a value."""
    rest = text.lstrip(" ")
    spaces = len(text) - len(rest)
    return "\\ " * spaces + "".join(_escape(char, "", ascii_only) for char in rest)


def escape_key(text: str, *, ascii_only: bool = False) -> str:
    """Write ``text`` as a key."""
    escaped = "".join(_escape(char, " =:", ascii_only) for char in text)
    return "\\" + escaped if escaped.startswith(("#", "!")) else escaped


def _escape(char: str, special: str, ascii_only: bool) -> str:
    if char in _ESCAPED:
        return _ESCAPED[char]
    if char in special:
        return "\\" + char
    if ord(char) < 0x20 or (ascii_only and ord(char) > 0x7E):
        units = char.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return char
