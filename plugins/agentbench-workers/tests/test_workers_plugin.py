"""What the distribution registers, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys

from agentbench_testing.fixtures import RunAgentbench
from agentbench_workers import plugin

HEAVY = ("cryptography", "httpx", "ssl")


def test_the_commands() -> None:
    """Both command groups."""
    registered: list[tuple[str, str]] = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [
        ("executor", "agentbench_workers.commands:executor"),
        ("worker", "agentbench_workers.commands:worker"),
    ]


def test_missing_distribution_is_named(run_agentbench: RunAgentbench) -> None:
    """As for all distributions of this project."""
    done = run_agentbench("--no-plugin", "workers", "worker")
    assert done.code == 2
    assert "is part of agentbench-workers; install it" in done.err


def test_entry_and_command_modules_import_nothing_heavy() -> None:
    """All commands import the entry module, and completion imports the command module."""
    code = (
        "import sys, agentbench_workers.plugin, agentbench_workers.commands;"
        f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr
