"""Keep rendered texts for as long as they are right."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pressroom.dependencies import Dependencies


@dataclass(frozen=True)
class Rendered:
    """A rendered text, and the templates that had a part in it."""

    text: str
    dependencies: Dependencies


@dataclass
class Statistics:
    """How often the cache could help."""

    hits: int = 0
    misses: int = 0


class RenderCache:
    """The most recently used texts, at most ``size`` of them."""

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError("the size of a cache cannot be negative")
        self.size = size
        self.statistics = Statistics()
        self._entries: OrderedDict[Hashable, Rendered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, is_right: Callable[[Dependencies], bool]) -> Rendered | None:
        """The text kept under ``key``, unless it is no longer right: then it is dropped."""
        entry = self._entries.get(key)
        if entry is not None and not is_right(entry.dependencies):
            del self._entries[key]
            entry = None
        if entry is None:
            self.statistics.misses += 1
            return None
        self.statistics.hits += 1
        self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: Rendered) -> None:
        """Keep a text."""
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > self.size:
            self._entries.popitem(last=False)
