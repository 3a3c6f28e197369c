"""From keys and values to text."""

from __future__ import annotations

from collections.abc import Mapping

from propfile.escapes import escape_key, escape_value


def dumps(values: Mapping[str, str], *, ascii_only: bool = False) -> str:
    """``values`` as the text of a properties file, one line each.

    With ``ascii_only``, other characters are written as ``\\uXXXX``.
    """
    return "".join(write_property(key, value, ascii_only=ascii_only) + "\n" for key, value in values.items())


def write_property(key: str, value: str, *, ascii_only: bool = False) -> str:
    """One property as one line, without the line's end."""
    return f"{escape_key(key, ascii_only=ascii_only)}={escape_value(value, ascii_only=ascii_only)}"
