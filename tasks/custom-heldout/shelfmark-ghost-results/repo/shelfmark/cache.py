"""Answers that were given before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shelfmark.items import Item

Tags = frozenset[str]


@dataclass
class Answers:
    """Found lists by the tags that were asked for, and the overview; None for what is not known."""

    found: dict[Tags, tuple[Item, ...]] = field(default_factory=dict)
    overview: Counter[str] | None = None

    def forget(self, tags: Tags) -> None:
        """Drop what is no longer right after a change of an item with these tags."""
        self.overview = None
        for asked in [asked for asked in self.found if asked <= tags]:
            del self.found[asked]
