"""``agentbench runs pack``: write runs to one file. The same runs always give the same file."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import click

from agentbench_core import InputError, quantity, size_text
from agentbench_core.harness import RUN, RunInfo, is_locked, run_info, say
from agentbench_runs.unpacking import DEEPEST, check_run_name

_LOCK = ".lock"
"""The only file that is not packed, because it is meaningful only on this machine."""


@click.command()
@click.argument("directories", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write. [default: name of the run directory, with .tar.gz]",
)
def pack(directories: tuple[Path, ...], output: Path | None) -> None:
    """Write runs to one file for sharing. `agentbench runs unpack` reads it.

    \b
    agentbench runs pack latest
    agentbench runs pack latest:baseline latest:new -o comparison.tar.gz

    The file contains everything in the run directories: conversations, code and results. Runs in progress are refused.
    Packing the same runs again creates an identical file.
    """
    if output is None and len(directories) > 1:
        raise click.UsageError("several runs require a file name: -o FILE.tar.gz")
    runs = [_checked(directory.resolve()) for directory in directories]
    names = [run.directory.name for run in runs]
    if len(set(names)) < len(names):
        raise InputError("two of the runs have the same directory name", remedy="Pack them into separate files.")
    path = output or Path(f"{names[0]}.tar.gz")
    for run in runs:
        if path.resolve().is_relative_to(run.directory):
            raise InputError(
                f"{path} is inside the run {run.directory}, so it would contain itself",
                remedy="Choose a file outside the run: -o FILE.tar.gz",
            )
    if os.path.lexists(path):
        raise InputError(f"{path} already exists", remedy="Remove it, or choose another name: -o FILE.tar.gz")
    count = write_archive(runs, path)
    files = quantity(count, "file")
    say(f"packed {', '.join(run.short_name for run in runs)}: {path}, {size_text(path.stat().st_size)}, {files}")


def _checked(directory: Path) -> RunInfo:
    from agentbench_core import open_run

    open_run(directory)
    check_run_name(directory.name)
    if is_locked(directory):
        raise InputError(f"{directory} is in progress", remedy="Wait until it is finished, or interrupt it.")
    return run_info(directory)


def write_archive(runs: Sequence[RunInfo], path: Path) -> int:
    """Write runs to a new file, which appears only when it is complete. Returns the number of packed files.

    Raises InputError on disk errors, and if a run contains links or special files or changes in the meantime.
    """
    part: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        part = Path(name)
        with os.fdopen(handle, "wb") as file:
            with (
                gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as archive,
            ):
                count = sum(_add(archive, run) for run in runs)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        os.link(part, path)  # unlike a rename, it fails if the file exists
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink()
    return count


def _add(archive: tarfile.TarFile, run: RunInfo) -> int:
    """Add a run and return its number of files. Files are sorted by name and have the start time of the run."""
    count = 0
    top = run.directory.name
    for name, path in itertools.chain([(top, run.directory)], _below(top, run.directory)):
        state = path.lstat()
        info = tarfile.TarInfo(name)
        info.mtime = int(run.started.timestamp())
        if stat.S_ISDIR(state.st_mode):
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(info)
            continue
        with _opened(path) as file:
            info.size = os.fstat(file.fileno()).st_size
            info.mode = 0o755 if state.st_mode & stat.S_IXUSR else 0o644
            archive.addfile(info, file)
        count += 1
    return count


def _below(name: str, directory: Path) -> Iterator[tuple[str, Path]]:
    """Everything below a directory, sorted, with names for the archive. Each directory comes before its content."""
    for path in sorted(directory.iterdir(), key=lambda path: os.fsencode(path.name)):
        if path.name == _LOCK and "/" not in name:
            continue
        if name.count("/") + 2 > DEEPEST:
            raise InputError(f"cannot pack {name[:200]}...: it has more than {DEEPEST} levels of directories")
        yield f"{name}/{path.name}", path
        if path.is_dir() and not path.is_symlink():
            yield from _below(f"{name}/{path.name}", path)


def _opened(path: Path) -> IO[bytes]:
    """A regular file, open for reading. Raises InputError if it is something else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"cannot pack {path}: {'it is a link' if path.is_symlink() else error.strerror}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"cannot pack {path}: it is not a regular file")
    return os.fdopen(handle, "rb")
