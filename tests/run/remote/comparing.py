"""What two runs of the same plan have in common."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Any

from agentbench_core import AttemptRecord, RunView, dump, open_run

VARYING = ("run_id", "attempt_id", "supersedes", "timestamps", "duration_sec")
"""Fields of a record that differ between two equal runs."""


def only_run(out: str | Path) -> RunView:
    """The run in an output directory."""
    (directory,) = Path(out).iterdir()
    return open_run(directory)


def seen(run: RunView) -> list[Any]:
    """Records and files as readers see them, without ids, times and order."""
    return sorted(
        ({**plain(record), "files": files(run, record)} for record in run.records()),
        key=lambda each: (each["variant"], each["task_id"], each["repeat"]),
    )


def plain(record: AttemptRecord) -> dict[str, Any]:
    """A record without ids and times."""
    return {name: value for name, value in dump(record).items() if name not in VARYING}


def files(run: RunView, record: AttemptRecord) -> list[str]:
    """The names of an attempt's files."""
    root = run.directory / record.artifact_paths["task_dir"]
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def event_types(run: RunView) -> list[str]:
    """The types of all events of attempts, sorted."""
    return sorted(type(entry.event).__name__ for entry in run.events() if entry.attempt_id)


def own_port() -> int:
    """A free port for the model servers of several runs, since it is part of their settings.

    It is below the ports that systems give to clients, so that no client of another process gets it between two runs.
    """
    for port in random.sample(range(20_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
