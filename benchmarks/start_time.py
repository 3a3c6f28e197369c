"""The start time of the command: `agentbench --help` compared with a bare `import click`, as a ratio.

Rounds alternate, so that a slow machine affects both. Run by ``make bench``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15


def wall(command: list[str]) -> float:
    """Seconds that a command takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print medians and the median ratio."""
    ours = [str(Path(sys.executable).parent / "agentbench"), "--help"]
    bare = [sys.executable, "-c", "import click"]
    for command in (ours, bare):
        wall(command)
    pairs = [(wall(ours), wall(bare)) for _ in range(ROUNDS)]
    help_ms, click_ms = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"agentbench --help {help_ms:.0f} ms, bare `import click` {click_ms:.0f} ms: {ratio:.2f}x (at most 3x)")


if __name__ == "__main__":
    main()
