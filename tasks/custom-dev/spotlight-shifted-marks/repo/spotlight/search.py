"""Find one query in a text."""

from __future__ import annotations

from spotlight.folding import fold
from spotlight.spans import Span


def find(text: str, query: str) -> list[Span]:
    """Where ``query`` is in ``text``, case and accents ignored."""
    wanted = fold(query)
    if not wanted:
        raise ValueError(f"there is nothing to look for in {query!r}")
    folded = fold(text)
    spans: list[Span] = []
    start = folded.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        spans.append(Span(start, end))
        start = folded.find(wanted, end)
    return spans
