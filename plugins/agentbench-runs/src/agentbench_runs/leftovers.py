"""Hidden directories beside runs: runs that are being deleted or written, and what was left of them by a kill."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentbench_core import InputError, remove_tree
from agentbench_core.harness import is_locked, lock_run

_DELETING = ".agentbench-deleting-"
_WRITING = ".agentbench-unpacking-", ".agentbench-merging-"


def leftovers(out: Path) -> Sequence[Path]:
    """The leftovers of killed commands in ``out``, excluding directories that are in use."""
    try:
        entries = sorted(out.iterdir())
    except OSError:
        return ()
    ours = [path for path in entries if path.name.startswith((_DELETING, *_WRITING))]
    return [path for path in ours if path.is_dir() and not path.is_symlink() and not is_locked(path)]


def delete_run(directory: Path) -> None:
    """Delete a run directory. It is renamed first, so that a kill leaves a directory to clean up instead of half a run.

    Raises InputError if it is in use, is a link, or cannot be deleted. Links in it are not followed.
    """
    if directory.is_symlink():
        raise InputError(f"{directory} is a link to a run", remedy="Delete the link manually, or pass the run's path.")
    try:
        with lock_run(directory):
            hidden = Path(tempfile.mkdtemp(prefix=_DELETING, dir=directory.parent))
            directory.rename(hidden / directory.name)
    except OSError as error:
        raise InputError(f"cannot delete {directory}: {error.strerror}") from None
    delete(hidden)


def delete(directory: Path) -> None:
    """Delete a leftover. Raises InputError if that fails."""
    try:
        remove_tree(directory)
    except FileNotFoundError:
        pass  # another process is also deleting it
    except OSError as error:
        raise InputError(f"cannot delete {error.filename or directory}: {error.strerror}") from None


@contextlib.contextmanager
def hidden_directory(out: Path, *, merging: bool = False) -> Iterator[Path]:
    """A new hidden directory in ``out``, locked, and deleted at the end. Raises InputError if it cannot be created."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix=_WRITING[merging], dir=out))
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}") from None
    try:
        with lock_run(directory):
            yield directory
    finally:
        with contextlib.suppress(OSError):
            remove_tree(directory)
