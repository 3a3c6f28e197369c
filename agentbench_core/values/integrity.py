"""How far the verdict on an attempt can be trusted: one word, apart from its score."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Integrity(enum.StrEnum):
    """The words, from harmless to worst. Each but the first is also the name of a label, which has the evidence."""

    CLEAN = "clean"
    TOUCHED_PROTECTED = "touched_protected"
    WEAK_VERDICT = "weak_verdict"
    LEAK_SUSPECTED = "leak_suspected"
    TAMPER_SUSPECTED = "tamper_suspected"
    TAMPER_CONFIRMED = "tamper_confirmed"


_ORDER = {word.value: rank for rank, word in enumerate(Integrity)}


def worst(labels: Iterable[str]) -> Integrity:
    """The worst word among names of labels; names that are none of the words count for nothing."""
    return Integrity(max((name for name in labels if name in _ORDER), key=_ORDER.__getitem__, default=Integrity.CLEAN))
