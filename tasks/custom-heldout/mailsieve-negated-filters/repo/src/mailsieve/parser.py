"""From tokens to nodes."""

from __future__ import annotations

from collections.abc import Callable

from mailsieve.errors import QueryError
from mailsieve.nodes import And, Compare, Is, Node, Not, Or, Word
from mailsieve.tokens import Token, tokens

_STARTS = frozenset({"term", "(", "-", "not"})


def parse(text: str) -> Node:
    """The query that ``text`` describes. Raises QueryError if it describes none."""
    return _Parser(text).whole()


class _Parser:
    """Recursive descent, one method for each level of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._index = 0

    def whole(self) -> Node:
        node = self._either()
        if self._next.kind != "end":
            raise self._error("expected 'and', 'or' or the end")
        return node

    def _either(self) -> Node:
        return self._joined(Or, self._both, lambda: self._accept("or"))

    def _both(self) -> Node:
        return self._joined(And, self._negated, lambda: self._accept("and") or self._next.kind in _STARTS)

    def _negated(self) -> Node:
        if self._accept("not"):
            return Not(self._both())
        if self._accept("-"):
            return Not(self._primary())
        return self._primary()

    def _primary(self) -> Node:
        if self._accept("("):
            node = self._either()
            if not self._accept(")"):
                raise self._error("expected ')'")
            return node
        token = self._next
        if not self._accept("term"):
            raise self._error("expected a term")
        return self._term(token)

    def _term(self, token: Token) -> Node:
        if token.field is None:
            return Word(token.text)
        if token.operator == ":":
            return Is(token.field, token.text)
        try:
            float(token.text)
        except ValueError:
            raise QueryError(self._text, token.position, f"{token.text!r} is not a number") from None
        return Compare(token.field, str(token.operator), token.text.strip())

    def _joined(self, kind: type[And | Or], part: Callable[[], Node], goes_on: Callable[[], bool]) -> Node:
        parts = [part()]
        while goes_on():
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _accept(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._index += 1
        return True

    def _error(self, reason: str) -> QueryError:
        return QueryError(self._text, self._next.position, reason)
