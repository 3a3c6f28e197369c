"""``agentbench runs unpack``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from agentbench_core import InputError
from agentbench_core.harness import run_info, runs_out_flag, say
from agentbench_runs.leftovers import hidden_directory
from agentbench_runs.sizes import SizeType
from agentbench_runs.unpacking import Limits, unpack_into


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@runs_out_flag
@click.option(
    "--max-size", type=SizeType(), default="20GB", show_default=True, help="Maximum size of the unpacked content."
)
def unpack(file: Path, out: str, max_size: int) -> None:
    """Extract runs from a file written by `agentbench runs pack`.

    \b
    agentbench runs unpack comparison.tar.gz

    The file may come from an untrusted source: it can only create new run directories, and all commands treat their
    content as untrusted. A run whose directory already exists is refused.
    """
    for directory in unpack_file(file, Path(out), Limits(bytes=max_size)):
        say(f"unpacked {run_info(directory).short_name}: {directory}")


def unpack_file(file: Path, out: Path, limits: Limits) -> list[Path]:
    """Unpack a file, and return the new run directories in ``out``.

    All of them appear at the end, after everything has been checked. Raises InputError if the file is refused.
    """
    from agentbench_core import open_run

    with hidden_directory(out) as hidden:
        content = hidden / "runs"
        content.mkdir()
        names = unpack_into(file, content, limits)
        for name in names:
            open_run(content / name)
            run_info(content / name)
            if os.path.lexists(out / name):
                raise InputError(
                    f"{out / name} already exists", remedy="Unpack the file into another directory: --out DIR"
                )
        _move(names, content, out)
    return [out / name for name in names]


def _move(names: Sequence[str], content: Path, out: Path) -> None:
    moved: list[str] = []
    try:
        for name in names:
            (content / name).rename(out / name)
            moved.append(name)
    except OSError as error:  # such as a run with the same name, written by another process in the meantime
        for name in moved:
            (out / name).rename(content / name)
        raise InputError(f"cannot create {out / names[len(moved)]}: {error.strerror}") from None
