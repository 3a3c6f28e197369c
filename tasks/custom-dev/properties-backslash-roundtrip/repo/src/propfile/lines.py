"""From the text of a file to logical lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

WHITE_SPACE = " \t\f"
_END_OF_LINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class LogicalLine:
    """One or more natural lines that belong together.

    ``text`` is what they say, without continuation backslashes and leading white space; ``raw`` the natural lines as
    they are in the file; ``number`` that of the first, counted from 1.
    """

    text: str
    raw: tuple[str, ...]
    number: int

    @property
    def is_property(self) -> bool:
        """Whether this is neither blank nor a comment."""
        return self.text != "" and not self.text.startswith(("#", "!"))


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """Cut ``text`` into logical lines, blank lines and comments included."""
    natural = _END_OF_LINE.split(text)
    if natural[-1] == "":
        natural.pop()
    index = 0
    while index < len(natural):
        first = index
        joined = natural[index].lstrip(WHITE_SPACE)
        if not joined.startswith(("#", "!")):
            while joined.endswith("\\"):
                joined = joined[:-1]
                index += 1
                if index == len(natural):
                    break
                joined += natural[index].lstrip(WHITE_SPACE)
        index += 1
        yield LogicalLine(joined, tuple(natural[first:index]), first + 1)
