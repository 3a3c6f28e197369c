"""All repairs of a file, the promising ones first."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .mutations import mutations
from .smells import smells
from .source import Edit, Repair, Source
from .statements import statements


def repairs(source: Source, suspicion: Callable[[Repair], float] | None = None) -> list[tuple[float, Repair]]:
    """What could mend a file, each with its weight, the heaviest first. Not all of it is Python: see :func:`mended`.

    Args:
        source: the file.
        suspicion: how suspicious the place of a repair is, 0 to 1; ``None``: all places alike.
    """
    found: dict[tuple[Edit, ...], tuple[float, Repair]] = {}
    for repair in (*smells(source), *mutations(source), *statements(source)):
        weight = repair.weight * (1.0 if suspicion is None else suspicion(repair))
        if weight > 0 and (repair.edits not in found or found[repair.edits][0] < weight):
            found[repair.edits] = (weight, repair)
    return sorted(found.values(), key=lambda entry: -entry[0])


def mended(source: Source, repair: Repair) -> str | None:
    """The file with a repair; nothing if that is no Python, or what it was."""
    text = source.after(repair.edits)
    return text if text != source.text and is_python(text) else None


def source_of(text: str) -> Source | None:
    """A file as a source; nothing if it is no Python."""
    try:
        return Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_python(text: str) -> bool:
    """Whether a text is a Python program."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
