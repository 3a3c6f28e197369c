"""Manifests: which files, and what they were."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class ManifestError(Exception):
    """A manifest that cannot be read."""


@dataclass(frozen=True)
class Entry:
    """One line of a manifest: ``name`` is a path from the manifest's directory."""

    digest: str
    name: str


def read_manifest(path: Path) -> list[Entry]:
    """The entries of a manifest, in its order."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: {error.__class__.__name__}") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ManifestError(f"{path}, line {number}: expected a SHA-256, two spaces and a path")
        entries.append(Entry(match[1], match[2]))
    return entries


def write_manifest(path: Path, files: Iterable[Path]) -> None:
    """Seal files as they are now."""
    lines = [f"{digest_of(file)}  {Path(os.path.relpath(file, path.parent)).as_posix()}\n" for file in files]
    path.write_text("".join(lines), encoding="utf-8")


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
