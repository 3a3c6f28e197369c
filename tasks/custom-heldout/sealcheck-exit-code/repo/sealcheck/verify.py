"""Compare files with a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from sealcheck.manifest import Entry, digest_of


class State(Enum):
    """What became of a file."""

    OK = "ok"
    CHANGED = "changed"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """The state of one file."""

    name: str
    state: State


def verify(entries: Iterable[Entry], directory: Path, only: str = "*") -> Iterator[Finding]:
    """The state of every file, or of those whose last part of the name fits the pattern ``only``."""
    for entry in entries:
        if not fnmatchcase(Path(entry.name).name, only):
            continue
        try:
            same = digest_of(directory / entry.name) == entry.digest
        except OSError:
            yield Finding(entry.name, State.MISSING)
        else:
            yield Finding(entry.name, State.OK if same else State.CHANGED)
