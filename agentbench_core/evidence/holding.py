"""One writer per run directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from agentbench_core.errors import InputError
from agentbench_core.evidence import layout


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Nobody else may write in ``directory`` meanwhile; the system lets go of it when its holder dies.

    Raises InputError when somebody does, or nobody can.
    """
    try:
        # Not thread-local: it may be let go of by another thread than the one that took it.
        lock = filelock.FileLock(directory / layout.LOCK, thread_local=False)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise InputError(
            f"{directory} is being written by another agentbench", remedy="Wait for it, or stop it."
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write to {directory}: {error.strerror}", remedy="Make it writable, or copy it to where it is."
        ) from None
    try:
        yield
    finally:
        lock.release()
