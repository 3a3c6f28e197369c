"""From logical lines to keys and values."""

from __future__ import annotations

from propfile.errors import PropertiesError
from propfile.escapes import unescape
from propfile.lines import WHITE_SPACE, LogicalLine, logical_lines


def loads(text: str) -> dict[str, str]:
    """The properties in ``text``, in order of their first appearance."""
    values: dict[str, str] = {}
    for line in logical_lines(text):
        if line.is_property:
            key, value = read_property(line)
            values[key] = value
    return values


def read_property(line: LogicalLine) -> tuple[str, str]:
    """Key and value of a line that is a property."""
    end = _end_of_key(line.text)
    rest = line.text[end:].lstrip(WHITE_SPACE)
    if rest.startswith(("=", ":")):
        rest = rest[1:].lstrip(WHITE_SPACE)
    try:
        return unescape(line.text[:end]), unescape(rest)
    except ValueError as error:
        raise PropertiesError(str(error), line.number) from error


def _end_of_key(text: str) -> int:
    index = 0
    while index < len(text):
        if text[index] == "\\":
            index += 2
        elif text[index] in "=:" or text[index] in WHITE_SPACE:
            return index
        else:
            index += 1
    return len(text)
