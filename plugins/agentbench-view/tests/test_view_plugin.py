"""The registered components of the distribution, and the cost of importing it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from agentbench_view import plugin

HEAVY = ("agentbench_report", "jinja2", "matplotlib", "starlette", "uvicorn")


def test_registers_the_command() -> None:
    registered: list[Any] = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("view", "agentbench_view.command:view")]


def test_entry_module_and_command_module_import_nothing_heavy() -> None:
    code = (
        "import sys, agentbench_view.plugin, agentbench_view.command;"
        f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr
