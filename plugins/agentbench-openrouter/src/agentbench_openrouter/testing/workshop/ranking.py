"""All repairs of a file, the promising ones first."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .mutations import mutations
from .smells import smells
from .source import Repair, Source
from .statements import statements


def repairs(text: str, suspicion: Callable[[Repair], float] | None = None) -> list[Repair]:
    """What could mend a file, best first; nothing for a file that is no Python.

    Args:
        text: the file.
        suspicion: how suspicious the place of a repair is, 0 to 1; ``None``: all places alike.
    """
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: dict[str, tuple[float, int, Repair]] = {}
    for number, repair in enumerate((*smells(source), *mutations(source), *statements(source))):
        weight = repair.weight * (1.0 if suspicion is None else suspicion(repair))
        changed = source.after(repair.edits)
        if weight <= 0 or changed == text or (changed in found and found[changed][0] >= weight):
            continue
        if is_python(changed):
            found[changed] = (weight, -number, repair)
    return [repair for _, _, repair in sorted(found.values(), key=lambda entry: entry[:2], reverse=True)]


def is_python(text: str) -> bool:
    """Whether a text is a Python program."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
