"""From nodes to text."""

from __future__ import annotations

import re

from mailsieve.nodes import And, Compare, Is, Node, Not, Or, Word
from mailsieve.tokens import KEYWORDS

_STRENGTH: dict[type[Node], int] = {Or: 1, Not: 2, And: 3, Word: 4, Is: 4, Compare: 4}
_PLAIN = re.compile(r"[\w.@+][\w.@+-]*")
_SPECIAL = re.compile(r'(["\\])')


def write(node: Node) -> str:
    """An expression for the node, with as few parentheses as possible."""
    match node:
        case Word(text):
            return _text(text)
        case Is(field, text):
            return f"{field}:{_text(text)}"
        case Compare(field, operator, number):
            return f"{field}{operator}{number}"
        case Not(part):
            return f"not {_within(part, node)}"
        case And(parts):
            return " and ".join(_within(part, node) for part in parts)
        case Or(parts):
            return " or ".join(_within(part, node) for part in parts)


def _within(part: Node, whole: Node) -> str:
    """The expression for a part of a node, in parentheses if the whole binds more strongly."""
    text = write(part)
    return f"({text})" if _STRENGTH[type(part)] < _STRENGTH[type(whole)] else text


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in KEYWORDS:
        return text
    return '"' + _SPECIAL.sub(r"\\\1", text) + '"'
