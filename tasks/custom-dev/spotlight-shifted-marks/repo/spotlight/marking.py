"""Show what was found."""

from __future__ import annotations

from collections.abc import Iterable

from spotlight.search import find
from spotlight.spans import joined


def mark(text: str, queries: Iterable[str], *, before: str = "[", after: str = "]") -> str:
    """``text`` with everything marked that one of the queries finds."""
    pieces: list[str] = []
    position = 0
    for start, end in joined(span for query in queries for span in find(text, query)):
        pieces += [text[position:start], before, text[start:end], after]
        position = end
    return "".join([*pieces, text[position:]])


def excerpt(text: str, query: str, *, around: int = 30, before: str = "[", after: str = "]") -> str | None:
    """The first thing found, marked, and some of the text around it; None if there is none."""
    spans = find(text, query)
    if not spans:
        return None
    start, end = spans[0]
    first, last = max(start - around, 0), min(end + around, len(text))
    return "".join(
        [
            "…" if first > 0 else "",
            text[first:start],
            before,
            text[start:end],
            after,
            text[end:last],
            "…" if last < len(text) else "",
        ]
    )
