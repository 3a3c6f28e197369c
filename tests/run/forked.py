"""The command ``agentbench`` in processes that have its modules from the beginning: to load them takes most of a run.

A process of its own loads them once, and is forked for each command; what is typed, its directory, its variables and
how it ends are as ever. For tests that begin very many runs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import agentbench_core
from agentbench_core.cli.main import console


def _modules() -> Iterator[str]:
    """Of the core, but for the kit and for programs that are meant for sandboxes."""
    root = Path(agentbench_core.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if not {"testing", "inside", "__init__", "__main__"} & {*parts}:
            yield ".".join(parts)


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *_modules()])


def begin(place: Path, arguments: Sequence[str], said: Path, variables: Mapping[str, str]) -> ForkServerProcess:
    """Start the command in the directory ``place``; what it says on stderr comes into a file, the rest is lost."""
    process = _CONTEXT.Process(target=_run, args=(place, arguments, said, dict(variables)))
    process.start()
    return process


def _run(place: Path, arguments: Sequence[str], said: Path, variables: Mapping[str, str]) -> None:
    os.chdir(place)
    os.environ.clear()
    os.environ.update(variables)
    for number, path in ((1, os.devnull), (2, said)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["agentbench", *arguments]
    console()
