"""Queries, as users of the package see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mailsieve.nodes import And, Node, Not, Or
from mailsieve.parser import parse
from mailsieve.writer import write


class Query:
    """Matches messages, which are mappings of fields. ``str(query)`` is its expression."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @classmethod
    def parse(cls, text: str) -> Query:
        """Read an expression. Raises QueryError if it is none."""
        return cls(parse(text))

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether the query matches one message."""
        return self._node.matches(message)

    def select(self, messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The messages that match."""
        return [message for message in messages if self.matches(message)]

    def __invert__(self) -> Query:
        return Query(Not(self._node))

    def __and__(self, other: Query) -> Query:
        return Query(And((self._node, other._node)))

    def __or__(self, other: Query) -> Query:
        return Query(Or((self._node, other._node)))

    def __str__(self) -> str:
        return write(self._node)

    def __repr__(self) -> str:
        return f"Query.parse({str(self)!r})"
