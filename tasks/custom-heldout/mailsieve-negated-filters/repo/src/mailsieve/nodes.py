"""What a query is made of, and what it matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """Somewhere in the message."""

    text: str

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether a field contains the word."""
        wanted = self.text.casefold()
        return any(wanted in str(item).casefold() for value in message.values() for item in _items(value))


@dataclass(frozen=True)
class Is:
    """A field with a text."""

    field: str
    text: str

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether the field is this text, or has an item that is."""
        wanted = self.text.casefold()
        return any(wanted == str(item).casefold() for item in _items(message.get(self.field, [])))


@dataclass(frozen=True)
class Compare:
    """A field with a number on one side of another number, which is kept as it was written."""

    field: str
    operator: str
    number: str

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether the field is a number, and on that side."""
        value = message.get(self.field)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return value > float(self.number) if self.operator == ">" else value < float(self.number)


@dataclass(frozen=True)
class Not:
    """What something does not match."""

    part: Node

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether the part does not."""
        return not self.part.matches(message)


@dataclass(frozen=True)
class And:
    """What all parts match."""

    parts: tuple[Node, ...]

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether all parts do."""
        return all(part.matches(message) for part in self.parts)


@dataclass(frozen=True)
class Or:
    """What one of the parts matches."""

    parts: tuple[Node, ...]

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether one part does."""
        return any(part.matches(message) for part in self.parts)


Node = Word | Is | Compare | Not | And | Or


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
