"""The command ``agentbench`` in processes that have its modules from the beginning: to load them takes most of a run.

A process of its own loads them once, and is forked for each command; what is typed, its directory, its variables and
how it ends are as ever. For tests that begin very many runs.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import agentbench_core
from agentbench_core.cli.main import console
from agentbench_core.evidence import journal


def _modules() -> Iterator[str]:
    """Of the core, but for the kit and for programs that are meant for sandboxes."""
    root = Path(agentbench_core.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if not {"testing", "inside", "__init__", "__main__"} & {*parts}:
            yield ".".join(parts)


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *_modules()])


def begin(
    place: Path, arguments: Sequence[str], stderr: Path, variables: Mapping[str, str], crash_at: str = ""
) -> ForkServerProcess:
    """Start the command in the directory ``place``; stderr comes into a file, stdout is lost.

    With ``crash_at="7"`` it is killed at the seventh checkpoint of the journal, and with ``7+`` after half of the
    change that follows it.
    """
    process = _CONTEXT.Process(target=_run, args=(place, arguments, stderr, dict(variables), crash_at))
    process.start()
    return process


def exit_code(*arguments: str, crash_at: str = "", **variables: str) -> int:
    """Of the command in this directory, run to its end; -9 when it was killed. Takes at most two minutes."""
    process = begin(Path.cwd(), arguments, Path(os.devnull), {**os.environ, **variables}, crash_at)
    process.join(120)
    assert process.exitcode is not None, "it does not end"
    return process.exitcode


def _crash(at: str) -> Callable[..., None]:
    """What takes the place of ``journal.checkpoint``."""
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
    console()
