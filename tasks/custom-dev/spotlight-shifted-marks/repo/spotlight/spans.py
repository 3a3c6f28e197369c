"""Pieces of a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Where a piece of a text starts, and where it ends: ``text[start:end]``."""

    start: int
    end: int


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same pieces in order, with those that overlap or touch made one."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start <= result[-1].end:
            result[-1] = Span(result[-1].start, span.end)
        else:
            result.append(span)
    return result
