"""Sizes: of run directories by kind of content, and as values of flags."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import click

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}B": size for unit, size in _UNITS.items() if unit not in ("", "B")}
_UNITS |= {f"{unit}IB": 2 ** (10 * power) for power, unit in enumerate("KMGT", start=1)}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]{0,3})")

KINDS = ("events", "records", "agent", "diffs", "workspace", "logs", "reports", "other")
"""The kinds of content in a run directory."""
_OF_RUN = {
    "events.jsonl": "events",
    "attempts.jsonl": "records",
    "run.json": "records",
    "tags.json": "records",
}
_OF_ATTEMPT = {"agent": "agent", "diffs": "diffs", "repo": "workspace", "workspace": "workspace", "logs": "logs"}


@attrs.frozen(kw_only=True)
class Sizes:
    """The sizes of the files of a run, in bytes."""

    by_kind: Mapping[str, int]
    """One value for each of :data:`KINDS`."""
    files: int
    """Number of files."""

    @property
    def total(self) -> int:
        """The size of all files."""
        return sum(self.by_kind.values())


def measure(directory: Path) -> Sizes:
    """The sizes of the files in a directory. Hard-linked files count once, and symbolic links are not followed."""
    by_kind = dict.fromkeys(KINDS, 0)
    seen: set[tuple[int, int]] = set()
    files = 0
    for parts, entry in walk(directory):
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError:  # removed in the meantime
            continue
        if state.st_nlink > 1:
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
        files += 1
        by_kind[_kind(parts)] += state.st_size
    return Sizes(by_kind=by_kind, files=files)


def walk(directory: Path) -> Iterator[tuple[tuple[str, ...], os.DirEntry[str]]]:
    """All files below a directory, with their relative paths. Links are not followed.

    Directories that cannot be read are skipped.
    """
    pending: list[tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        try:
            with os.scandir(directory.joinpath(*parts)) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            below = (*parts, entry.name)
            if entry.is_dir(follow_symlinks=False):
                pending.append(below)
            else:
                yield below, entry


def _kind(parts: tuple[str, ...]) -> str:
    if len(parts) == 1:
        if parts[0] in _OF_RUN:
            return _OF_RUN[parts[0]]
        return "other" if parts[0].startswith(".") or ".before-rebuild" in parts[0] else "reports"
    if parts[0] not in ("tasks", "superseded") or len(parts) < 3:
        return "other"
    return _OF_ATTEMPT.get(parts[2].partition(".")[0], "other")


class SizeType(click.ParamType[int]):
    """A size such as ``500MB``, ``1.5GB`` or ``2GiB``, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a size."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if match is None or match[2].upper() not in _UNITS:
            self.fail(f"{value!r} is not a valid size; examples: 500MB, 1.5GB, 2GiB.", param, ctx)
        return int(float(match[1]) * _UNITS[match[2].upper()])
