"""The catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shelfmark.cache import Answers
from shelfmark.items import Item
from shelfmark.storage import Storage


class Catalogue:
    """Tagged items, found by their tags."""

    def __init__(self) -> None:
        self._storage = Storage()
        self._answers = Answers()

    @property
    def scans(self) -> int:
        """How often all items were gone through."""
        return self._storage.scans

    def get(self, id: str) -> Item:
        """The item with this id. Raises KeyError."""
        item = self._storage.get(id)
        if item is None:
            raise KeyError(id)
        return item

    def find(self, *tags: str) -> list[Item]:
        """The items that have all these tags, by title."""
        asked = frozenset(tags)
        if asked not in self._answers.found:
            self._answers.found[asked] = tuple(item for item in self._storage.scan() if item.has(asked))
        return list(self._answers.found[asked])

    def overview(self) -> dict[str, int]:
        """How many items have each tag, by tag."""
        if self._answers.overview is None:
            self._answers.overview = Counter(tag for item in self._storage.scan() for tag in item.tags)
        return dict(sorted(self._answers.overview.items()))

    def put(self, item: Item) -> None:
        """Add an item, or replace the one with the same id."""
        self._storage.write(item.id, item)
        self._answers.forget(item.tags)

    def remove(self, id: str) -> None:
        """Take an item away. Raises KeyError."""
        item = self.get(id)
        self._storage.write(id, None)
        self._answers.forget(item.tags)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo everything written in the block if it raises."""
        self._storage.begin()
        try:
            yield
        except BaseException:
            self._storage.rollback()
            raise
        else:
            self._storage.commit()
