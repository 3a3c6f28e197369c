"""The cost of a huge repository: checkout, fork, snapshot and diff, in seconds and memory, as ratios.

Compares a large tree with one a tenth of its size: it should take ten times the time and little more memory.
Usage: ``python benchmarks/huge_repository.py [FILES]``.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.workspace.git import FILE, Git
from agentbench_core.workspace.repos import checkout
from agentbench_core.workspace.snapshot import Snapshots
from agentbench_core.workspace.tree import Tree, fork

LARGE = 100 << 20  # size of the one large file, in bytes
DEADLINE = Deadline(3600)


def name_of(number: int) -> str:
    """The path of a file: 100 files per directory, 100 directories per package."""
    return f"package_{number // 10_000}/module_{number // 100 % 100}/file_{number}.py"


def make_repository(directory: Path, files: int, *, large: int = LARGE) -> str:
    """Create a bare repository with this many small files and a large one, and return its commit."""
    git = Git(directory)
    git.create()
    with git.commit("refs/heads/main", DEADLINE) as writer:
        for number in range(files):
            data = f"# {number}\n".encode() * 20
            writer.add(name_of(number), FILE, len(data), (data,))
        writer.add("large.bin", FILE, large, (os.urandom(1 << 20) for _ in range(large >> 20)))
    return writer.commit


def change(workspace: Path, files: int) -> None:
    """Append a line to that many files."""
    for number in range(files):
        with (workspace / name_of(number)).open("a") as file:
            file.write("changed\n")


def measure(directory: Path, files: int, *, large: int = LARGE) -> dict[str, float]:
    """Seconds of each step, and peak MiB of this process and of the largest git process."""
    seconds: dict[str, float] = {}

    def timed(step: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        seconds[step] = time.perf_counter() - started

    commit = make_repository(directory / "origin", files, large=large)
    repo = Repo(url="origin", commit=commit)
    pristine, work, scoring = directory / "pristine", directory / "work", directory / "scoring"
    timed(
        "checkout",
        lambda: checkout(repo, beside=directory, into=pristine, deadline=DEADLINE, cache=directory / "cache"),
    )
    timed("fork", lambda: fork(pristine, work))
    snapshots = Snapshots(directory / "snapshots", DEADLINE)
    timed("first snapshot", lambda: snapshots.take(pristine))
    base = snapshots.take(pristine)
    change(work, min(files, 10_000))
    timed("freeze", lambda: snapshots.freeze(base, work))
    frozen = snapshots.freeze(base, work)
    assert len(frozen.changes) == min(files, 10_000)
    timed("diff", lambda: snapshots.diff(base, frozen.snapshot, frozen.changes))
    fork(pristine, scoring)
    with Tree(scoring) as tree:
        timed("restore", lambda: snapshots.apply(frozen.changes, tree))
    for name, who in (("peak MiB", resource.RUSAGE_SELF), ("peak MiB of git", resource.RUSAGE_CHILDREN)):
        seconds[name] = resource.getrusage(who).ru_maxrss / 1024
    return seconds


def alone(files: int, large: int = LARGE) -> dict[str, float]:
    """The result of :func:`measure` in a separate process, so that memory peaks are not shared."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, __file__, "--measure", directory, str(files), str(large)]
        done: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return done


def main() -> None:
    """Print both sizes and their ratio."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), int(sys.argv[3]), large=int(sys.argv[4]))))
        return
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    small, huge = alone(files // 10), alone(files)
    print(f"{'step':<16}{files // 10:>9} files{files:>9} files   ratio")
    for step in huge:
        print(f"{step:<16}{small[step]:>15.1f}{huge[step]:>15.1f}{huge[step] / small[step]:>7.1f}x")


if __name__ == "__main__":
    main()
