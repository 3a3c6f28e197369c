"""Run directories as they are typed."""

from __future__ import annotations

from pathlib import Path

from agentbench_core.cli.flags import run_settings
from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.evidence.reader import RunDirectory, find_runs, open_run


def open_typed(directory: str | Path) -> RunDirectory:
    """The run directory that was typed. Raises InputError; with the nearest one beside it, or where results go."""
    path = Path(directory)
    try:
        return open_run(path)
    except InputError as error:
        if path.exists():
            raise
        out = Path(run_settings().out)
        wanted, known = (path, find_runs(path.parent)) if path.parent != Path() else (out / path, find_runs(out))
        nearest = did_you_mean(str(wanted), map(str, known))
        raise InputError(f"{error.message}{nearest}", remedy=error.remedy) from None
