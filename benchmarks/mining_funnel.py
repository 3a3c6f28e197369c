"""The cost of the funnel: reading a history and sifting it, compared with a bare ``git log`` of the same history.

Usage: ``python benchmarks/mining_funnel.py [COMMITS]``. The repository is generated: fixes, merges, documentation,
bots, reverts and releases in a program of 200 modules.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from agentbench_core import Deadline
from agentbench_core.harness import Git
from agentbench_tasks.mining.funnel import FunnelSettings, sift
from agentbench_tasks.mining.history import read_history

MODULES = 200
LINES = 300  # per file
KINDS = {"fix": 35, "merge": 20, "docs": 15, "source": 15, "bot": 8, "release": 4, "revert": 3}  # weights
TIMES = 3
T = TypeVar("T")


class Writer:
    """Writes the input of ``git fast-import``, always the same for a number of commits."""

    def __init__(self, commits: int) -> None:
        self.commits = commits
        self.chance = random.Random(commits)
        self.files = {path: [f"value_{line} = {line}" for line in range(LINES)] for path in _paths()}
        self.mark = 0  # of the last commit

    def stream(self) -> Iterator[bytes]:
        """The whole input."""
        yield from self._commit(0, "Start", "Ann <ann@example.org>", list(self.files))
        for number in range(self.commits):
            yield from self._change(number, self.mark)
        yield b"done\n"

    def _change(self, number: int, tip: int) -> Iterator[bytes]:
        kind = self.chance.choices([*KINDS], [*KINDS.values()])[0]
        module = self.chance.randrange(MODULES)
        source, test = f"src/p{module % 20}/m{module}.py", f"tests/test_m{module}.py"
        message = f"Change {number} of {source}\n\n{'What was wrong, and why. ' * 10}"
        author = f"Author {self.chance.randrange(50)} <author@example.org>"
        changes = {
            "fix": (message, author, [source, test, "CHANGES.md"]),
            "source": (message, author, [source]),
            "docs": (message, author, ["docs/index.md", "CHANGES.md"]),
            "bot": ("Bump x", "dependabot[bot] <d@example.org>", ["uv.lock"]),
            "release": (f"Release {number}", author, ["pyproject.toml", "CHANGES.md"]),
            "revert": (f'Revert "Change {number - 1}"', author, [source, test]),
        }
        if kind in changes:
            yield from self._commit(tip, *changes[kind])
            return
        for _ in range(self.chance.randint(1, 4)):
            yield from self._commit(self.mark, message, author, [source, test])
        subject = f"Merge pull request #{number} from a/b\n\n{message}"
        yield from self._commit(tip, subject, author, [source, test], merged=self.mark)

    def _commit(self, parent: int, message: str, author: str, paths: list[str], merged: int = 0) -> Iterator[bytes]:
        self.mark += 1
        who = f"{author} {1500000000 + 3600 * self.mark} +0200"
        yield f"commit refs/heads/main\nmark :{self.mark}\nauthor {who}\ncommitter {who}\n".encode()
        yield _data(message)
        yield f"from :{parent}\n".encode() if parent else b""
        yield f"merge :{merged}\n".encode() if merged else b""
        for path in paths:
            lines = self.files[path]
            for _ in range(0 if merged else self.chance.randint(1, 6)):
                lines[self.chance.randrange(LINES)] = f"value_{self.mark} = {self.chance.random()}"
            yield f"M 100644 inline {path}\n".encode() + _data("\n".join(lines) + "\n")


def _paths() -> Iterator[str]:
    for module in range(MODULES):
        yield from (f"src/p{module % 20}/m{module}.py", f"tests/test_m{module}.py")
    yield from ("docs/index.md", "CHANGES.md", "uv.lock", "pyproject.toml")


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n%b\n" % (len(content), content)


def fastest(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds of the fastest of several calls, and the result."""
    best, result = float("inf"), work()
    for _ in range(TIMES):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result


def main() -> None:
    """Print seconds, ratios and the funnel."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    deadline = Deadline(3600)
    with tempfile.TemporaryDirectory() as directory:
        git = Git(Path(directory) / "git")
        git.create()
        with git.start("fast-import", "--quiet", "--done", "--depth=50", deadline=deadline) as (process, _):
            assert process.stdin is not None
            process.stdin.writelines(Writer(number).stream())
            process.stdin.flush()
        bare = ("log", "--first-parent", "--raw", "--numstat", "-m", "-z", "refs/heads/main")
        plain, _ = fastest(lambda: git.run(*bare, deadline=deadline))
        read, commits = fastest(lambda: read_history(git, "refs/heads/main", deadline=deadline))
        sifted, funnel = fastest(lambda: sift(commits, FunnelSettings(), git, deadline))
    print(f"funnel over {len(commits)} commits, the fastest of {TIMES}")
    print(f"  git log   {plain:6.2f} s")
    print(f"  read      {read:6.2f} s   {read / plain:5.2f} x git log")
    print(f"  sift      {sifted:6.2f} s   {sifted / plain:5.2f} x git log")
    print(f"  together  {read + sifted:6.2f} s   (at most 10 s for 10,000 commits)")
    for stage in funnel.counts:
        print(f"  {stage.left:>8}  {stage.name}")


if __name__ == "__main__":
    main()
