"""Checks of this machine, including leftovers of earlier commands, for ``agentbench doctor``."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import platformdirs

from agentbench_core.run.readiness import Check
from agentbench_core.values.text import size_text
from agentbench_core.workspace.scratch import Scratch

STALE_DAYS = 30
"""Number of days after which an unused part of a cache is reported."""
_LOW_DISK = 2 << 30  # bytes
_SHOWN = 3
"""Maximum number of paths in one remedy."""


def machine_checks() -> Iterator[Check]:
    """Python, and the disk for workspaces."""
    yield Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    detail = f"{size_text(free)} free in {directory}"
    if free >= _LOW_DISK:
        yield Check("disk", "ok", detail)
    else:
        yield Check("disk", "warning", detail, "Workspaces are created there. Free disk space, or set TMPDIR.")


def cache_checks() -> Iterator[Check]:
    """The sizes of the caches that the core writes, and of directories that killed runs have left."""
    root = platformdirs.user_cache_path("agentbench")
    repositories = [path for pattern in ("*.git", "history/*.git") for path in sorted((root / "repos").glob(pattern))]
    yield _cache("cache repos", "cloned repositories", root / "repos", repositories)
    yield _cache("cache setup", "setup logs", root / "setup", sorted((root / "setup").glob("*.json")))
    leftovers = Scratch.leftovers()
    if leftovers:
        total = size_text(sum(map(bytes_of, leftovers)))
        detail = f"directories left by killed runs in {tempfile.gettempdir()}: {len(leftovers)}, {total}"
        yield Check("leftovers", "warning", detail, _removal(leftovers))


def _cache(name: str, what: str, root: Path, parts: Sequence[Path]) -> Check:
    if not parts:
        return Check(name, "ok", f"no {what}")
    sizes = {path: bytes_of(path) for path in parts}
    detail = f"{what} in {root}: {len(parts)}, {size_text(sum(sizes.values()))}"
    stale = [path for path in parts if _age_days(path) > STALE_DAYS]
    if not stale:
        return Check(name, "ok", detail)
    old = size_text(sum(sizes[path] for path in stale))
    remedy = f"{_removal(stale)}\nLater runs will recreate them if necessary."
    return Check(name, "warning", f"{detail}; unchanged for {STALE_DAYS} days: {len(stale)}, {old}", remedy)


def _removal(paths: Sequence[Path]) -> str:
    """The command that removes the paths; it names their directory if there are many."""
    if len(paths) <= _SHOWN:
        return f"Run: rm -rf {shlex.join(map(str, paths))}"
    names = " ".join(shlex.quote(path.name) for path in paths[:_SHOWN])
    return f"Run: cd {shlex.quote(str(paths[0].parent))} && rm -rf {names} (and {len(paths) - _SHOWN} more)"


def _age_days(path: Path) -> float:
    """Days since a file, or an entry directly in a directory, was changed."""
    newest = 0.0
    with contextlib.suppress(OSError):
        newest = max(item.stat().st_mtime for item in (path, *(path.iterdir() if path.is_dir() else ())))
    return (time.time() - newest) / 86_400 if newest else 0.0


def bytes_of(path: Path) -> int:
    """Disk usage of a file, or of a directory and its contents, in bytes. Links are not followed."""
    total = 0
    paths = [path, *(Path(root, name) for root, folders, files in os.walk(path) for name in (*folders, *files))]
    for each in paths:
        with contextlib.suppress(OSError):
            total += each.lstat().st_blocks * 512
    return total
