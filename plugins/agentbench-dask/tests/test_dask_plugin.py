"""What the distribution registers, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys

from agentbench_dask import plugin
from agentbench_dask.options import DaskOptions
from agentbench_testing.fixtures import RunAgentbench

HEAVY = ("cryptography", "distributed", "httpx", "ssl")


def test_the_executor(run_agentbench: RunAgentbench) -> None:
    """Its options are shown, and attempts run in other processes."""
    done = run_agentbench("plugins", "show", "dask")
    assert done.code == 0
    assert "capabilities: remote" in done.out
    assert "executor.scheduler" in done.out or "scheduler" in done.out
    assert type(plugin.dask(DaskOptions())).__name__ == "DaskExecutor"


def test_missing_distribution_is_named(run_agentbench: RunAgentbench) -> None:
    """As for all distributions of this project."""
    done = run_agentbench("--no-plugin", "dask", "doctor", "--executor", "dask")
    assert "executor 'dask' is part of agentbench-dask; install it" in done.err + done.out


def test_the_entry_module_imports_nothing_heavy() -> None:
    """All commands import it."""
    code = f"import sys, agentbench_dask.plugin; print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr
