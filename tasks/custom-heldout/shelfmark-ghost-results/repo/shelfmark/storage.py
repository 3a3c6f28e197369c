"""Items, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

from shelfmark.items import Item

Undo = list[tuple[str, Item | None]]
"""Ids that were written, in order, and what each was before; None for nothing."""


class Storage:
    """All items by id, with nested transactions."""

    def __init__(self) -> None:
        self.scans = 0
        self._items: dict[str, Item] = {}
        self._open: list[Undo] = []

    def get(self, id: str) -> Item | None:
        """One item, if it is there."""
        return self._items.get(id)

    def scan(self) -> Iterator[Item]:
        """All items, by title."""
        self.scans += 1
        return iter(sorted(self._items.values(), key=lambda item: (item.title, item.id)))

    def write(self, id: str, item: Item | None) -> None:
        """Set an item, or take it away."""
        if self._open:
            self._open[-1].append((id, self._items.get(id)))
        self._set(id, item)

    def begin(self) -> None:
        """Start a transaction, within the one that is open if there is one."""
        self._open.append([])

    def commit(self) -> None:
        """End the innermost transaction; its writes become those of the one around it."""
        undo = self._open.pop()
        if self._open:
            self._open[-1] += undo

    def rollback(self) -> None:
        """End the innermost transaction and undo its writes."""
        for id, before in reversed(self._open.pop()):
            self._set(id, before)

    def _set(self, id: str, item: Item | None) -> None:
        if item is None:
            self._items.pop(id, None)
        else:
            self._items[id] = item
