"""The quay: ships, works, and what is free."""

from __future__ import annotations

from quayplan.errors import NoRoom, QuayError, UnknownShip
from quayplan.spans import Span, SpanSet


class Quay:
    """A quay of so many metres; the README says how it behaves."""

    def __init__(self, length: int) -> None:
        self._all = Span(0, length)
        self._free = SpanSet([self._all])
        self._ships: dict[str, Span] = {}

    def berth(self, ship: str, length: int, at: int | None = None) -> Span:
        """Give a ship a place. Raises NoRoom, and QuayError when she is there already."""
        if ship in self._ships:
            raise QuayError(f"{ship} is there already, at {self._ships[ship]}")
        place = self._shortest(length) if at is None else self._span(at, at + length)
        if place not in self._free:
            raise NoRoom(f"{place} is not free")
        self._free.discard(place)
        self._ships[ship] = place
        return place

    def leave(self, ship: str) -> None:
        """Take a ship away. Raises UnknownShip."""
        try:
            place = self._ships.pop(ship)
        except KeyError:
            raise UnknownShip(f"{ship} is not there") from None
        self._free.add(place)

    def close(self, start: int, end: int) -> None:
        """Close metres for works: no ship is sent there."""
        self._free.discard(self._span(start, end))

    def reopen(self, start: int, end: int) -> None:
        """End the works on these metres."""
        works = self._span(start, end)
        self._free.add(works)
        for place in self._ships.values():
            self._free.discard(place)

    def gaps(self) -> list[Span]:
        """The free metres, sorted, as few spans as possible."""
        return list(self._free)

    def longest_gap(self) -> int:
        """The length of the longest gap in metres, or 0."""
        return max((gap.length for gap in self._free), default=0)

    def ships(self) -> dict[str, Span]:
        """The ships and their places, sorted by place."""
        return dict(sorted(self._ships.items(), key=lambda item: item[1]))

    def _shortest(self, length: int) -> Span:
        """The beginning of the shortest gap that is long enough."""
        if length < 1:
            raise QuayError(f"a ship has a length, not {length}")
        fitting = [gap for gap in self._free if gap.length >= length]
        if not fitting:
            raise NoRoom(f"no room for {length} metres; the longest gap has {self.longest_gap()}")
        gap = min(fitting, key=lambda gap: gap.length)
        return Span(gap.start, gap.start + length)

    def _span(self, start: int, end: int) -> Span:
        span = Span(start, end)
        if span.end > self._all.end:
            raise QuayError(f"{span} is outside the quay, {self._all}")
        return span
