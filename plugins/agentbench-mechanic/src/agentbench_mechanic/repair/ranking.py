"""All repairs of a file, the most promising first."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .mutations import mutations
from .smells import smells
from .source import Edit, Repair, Source
from .statements import statements


def repairs(source: Source, suspicion: Callable[[Repair], float] | None = None) -> list[tuple[float, Repair]]:
    """Possible repairs with their weights, the heaviest first. Some produce invalid Python; see :func:`repaired`.

    Args:
        source: the file.
        suspicion: how suspicious the location of a repair is, 0 to 1; ``None`` means 1 everywhere.
    """
    best: dict[tuple[Edit, ...], tuple[float, Repair]] = {}
    for repair in (*smells(source), *mutations(source), *statements(source)):
        weight = repair.weight * (1.0 if suspicion is None else suspicion(repair))
        if weight > 0 and (repair.edits not in best or best[repair.edits][0] < weight):
            best[repair.edits] = (weight, repair)
    return sorted(best.values(), key=lambda entry: -entry[0])


def repaired(source: Source, repair: Repair) -> str | None:
    """The file with a repair; ``None`` if the result is not valid Python, or is unchanged."""
    text = source.after(repair.edits)
    return text if text != source.text and is_python(text) else None


def source_of(text: str) -> Source | None:
    """The source of a file; ``None`` if it is not valid Python."""
    try:
        return Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_python(text: str) -> bool:
    """Whether a text is valid Python."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
