"""The cost of a supervised command in the `local` sandbox, compared with a subprocess. Run by ``make bench``."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentbench_core import Deadline, EnvironmentSpec, ExecResult
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider

ROUNDS = 200


class Quiet:
    """A setup log that discards everything."""

    def started(self, command: str) -> None:
        """Do nothing."""

    def finished(self, command: str, result: ExecResult) -> None:
        """Do nothing."""

    def reused(self, command: str, result: ExecResult) -> None:
        """Do nothing."""


def median_ms(work: Callable[[], object]) -> float:
    """Median wall time of one call in milliseconds, after a warm-up."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times[ROUNDS // 10 :])


def main() -> None:
    """Print medians and the ratio."""
    deadline = Deadline(600)
    provider = LocalProvider(LocalOptions())
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name) / "workspace"
        workspace.mkdir()
        spec = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(), setup=Setup(capture=()))
        try:
            environment = provider.prepare(spec, workspace, Quiet(), deadline)
            sandbox = environment.start(workspace, read_only=False, network=False, deadline=deadline)
            plain = median_ms(lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True))
            supervised = median_ms(lambda: sandbox.exec("true", deadline=deadline))
            sandbox.close()
        finally:
            provider.close()
    ratio = supervised / plain
    print(f"local sandbox, exec of `true`: {supervised:.1f} ms; plain subprocess {plain:.1f} ms: {ratio:.1f}x")


if __name__ == "__main__":
    main()
