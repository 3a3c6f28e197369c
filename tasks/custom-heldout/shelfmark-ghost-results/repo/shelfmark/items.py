"""What a catalogue holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """An item with its tags, which may be given in any order and repeated."""

    id: str
    title: str
    tags: frozenset[str]

    def __init__(self, id: str, title: str, tags: Iterable[str] = ()) -> None:
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "tags", frozenset(tags))

    def has(self, tags: frozenset[str]) -> bool:
        """Whether the item has all of these tags."""
        return tags <= self.tags
