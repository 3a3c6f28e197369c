"""Run ``agentbench`` in forked processes that have its modules preloaded, because importing takes most of a run.

A fork server imports the modules once and forks for each command. Arguments, working directory, variables and exit
codes work as usual. For tests that start very many runs.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import agentbench_core
import agentbench_integrity
import agentbench_local
from agentbench_core.cli.main import console
from agentbench_core.evidence import journal


def _modules() -> Iterator[str]:
    """List the entry modules of all plugins, and all modules of the core and of the sandbox and scorer of most runs.

    Programs that run in sandboxes are left out.
    """
    yield from sorted({entry.module for entry in metadata.entry_points(group="agentbench")})
    for package in (agentbench_core, agentbench_integrity, agentbench_local):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if not {"inside", "supervise", "__init__", "__main__"} & {*parts}:
                yield ".".join(parts)


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *_modules()])
_POLLING = threading.Lock()  # start() polls other threads' processes, and an exit code can be read only once


def begin(
    place: Path, arguments: Sequence[str], stderr: Path, variables: Mapping[str, str], crash_at: str = ""
) -> ForkServerProcess:
    """Start the command in ``place``; stderr goes to a file, stdout is discarded.

    With ``crash_at="7"`` it is killed at the seventh checkpoint of the journal, and with ``7+`` after half of the
    following change.
    """
    process = _CONTEXT.Process(target=_run, args=(place, arguments, stderr, dict(variables), crash_at))
    with _POLLING:
        process.start()
    return process


def end(process: ForkServerProcess) -> int:
    """Wait for the command and return its exit code, -9 if killed; fails after two minutes."""
    assert wait([process.sentinel], 120), "the command did not end"
    with _POLLING:
        code = process.exitcode
    assert code is not None
    return code


def exit_code(*arguments: str, crash_at: str = "", **variables: str) -> int:
    """Run the command in this directory and return its exit code."""
    return end(begin(Path.cwd(), arguments, Path(os.devnull), {**os.environ, **variables}, crash_at))


def _crash(at: str) -> Callable[..., None]:
    """Return a replacement for ``journal.checkpoint``."""
    numbers = itertools.count(1)

    def checkpoint(half: Callable[[], object] = lambda: None) -> None:
        number = next(numbers)
        if at == f"{number}+":
            half()
        if at in (f"{number}", f"{number}+"):
            os.kill(os.getpid(), signal.SIGKILL)

    return checkpoint


def _run(place: Path, arguments: Sequence[str], stderr: Path, variables: Mapping[str, str], crash_at: str) -> None:
    os.chdir(place)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    journal.checkpoint = _crash(crash_at)
    for number, path in ((1, os.devnull), (2, stderr)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["agentbench", *arguments]
    gc.freeze()  # the preloaded modules stay, and searching them for garbage takes longer than many a run
    console()
