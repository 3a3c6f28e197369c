"""Spans of metres, and sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from sortedcontainers import SortedDict

from quayplan.errors import QuayError


@attrs.frozen(order=True)
class Span:
    """The metres from ``start`` up to, but not including, ``end``."""

    start: int
    end: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise QuayError(f"not a span: {self}")

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"

    @property
    def length(self) -> int:
        """How many metres."""
        return self.end - self.start


class SpanSet:
    """A set of metres, kept as the fewest spans."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._ends = SortedDict()  # the start of each span -> its end
        for span in spans:
            self.add(span)

    def __iter__(self) -> Iterator[Span]:
        return iter([Span(start, end) for start, end in self._ends.items()])

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, span: Span) -> bool:
        at = self._ends.bisect_right(span.start) - 1
        return at >= 0 and self._ends.peekitem(at)[1] >= span.end

    @property
    def total(self) -> int:
        """How many metres."""
        return sum(span.length for span in self)

    def add(self, span: Span) -> None:
        """Add these metres; those that are in it already stay."""
        start, end = span.start, span.end
        at = self._ends.bisect_right(start)
        if at:
            before, its_end = self._ends.peekitem(at - 1)
            if its_end >= start:
                start, end = before, max(end, its_end)
        if at < len(self._ends):
            after, its_end = self._ends.peekitem(at)
            if after < end:
                del self._ends[after]
                end = max(end, its_end)
        self._ends[start] = end

    def discard(self, span: Span) -> None:
        """Remove these metres; those that are not in it are none to remove."""
        at = max(self._ends.bisect_right(span.start) - 1, 0)
        while at < len(self._ends):
            start, end = self._ends.peekitem(at)
            if start >= span.end:
                return
            if end <= span.start:
                at += 1
                continue
            del self._ends[start]
            if start < span.start:
                self._ends[start] = span.start
                at += 1
            if end > span.end:
                self._ends[span.end] = end
                return
