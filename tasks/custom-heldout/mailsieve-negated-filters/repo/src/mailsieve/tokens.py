"""From text to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailsieve.errors import QueryError

KEYWORDS = frozenset({"and", "or", "not"})

_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(
    r"""(?P<sign> [()] | -(?=[^\s)]) )
      | (?: (?P<field> [A-Za-z_][A-Za-z_0-9-]* ) (?P<operator> [:<>] ) )?
        (?: "(?P<quoted> (?: [^"\\] | \\. )* )" | (?P<plain> [^\s()"]+ ) )""",
    re.VERBOSE | re.DOTALL,
)
_KEPT = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A sign or a keyword (``kind`` is its text), a ``term``, or the ``end``."""

    kind: str
    position: int
    text: str = ""
    field: str | None = None
    operator: str | None = None


def tokens(text: str) -> Iterator[Token]:
    """The tokens of an expression, the last of them its end."""
    position = _skip(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise QueryError(text, position, "expected a term")
        yield _token(match)
        position = _skip(text, match.end())
    yield Token("end", len(text))


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _token(match: re.Match[str]) -> Token:
    if match["sign"]:
        return Token(match["sign"], match.start())
    if match["plain"] in KEYWORDS and match["field"] is None:
        return Token(match["plain"], match.start())
    text = match["plain"] if match["quoted"] is None else _KEPT.sub(r"\1", match["quoted"])
    return Token("term", match.start(), text, match["field"], match["operator"])
