"""The registered sandbox, the cost of the import, and the message if it is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from agentbench_core import describe
from agentbench_local import plugin
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_testing.fixtures import MakeTask, RunAgentbench

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "packaging", "platformdirs", "rich", "selectors", "subprocess")


def test_registers_the_sandbox() -> None:
    registered = []

    def register(name: str, factory: Any, options: type, *, summary: str, capabilities: Any) -> None:
        provider = factory(options())
        registered.append((name, type(provider), options, "NOT ISOLATED" in summary, capabilities))
        provider.close()

    plugin.agentbench_register_sandboxes(cast("Any", register))
    assert registered == [("local", LocalProvider, LocalOptions, True, ("programs",))]


def test_entry_module_imports_nothing_heavy() -> None:
    """Listing plugins must not import what only runs need."""
    code = f"import sys, agentbench_local.plugin; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_readme_documents_every_option() -> None:
    text = README.read_text()
    for row in describe(LocalOptions):
        assert f"| `{row.name}` | {row.help} |" in text


def test_local_is_the_default_sandbox(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    """This sandbox is the default."""
    done = run_agentbench("run-task", "--task", str(make_task()), "--agent", "scripted")
    assert "1 of 1 scored attempts passed" in done.out, done.err
    assert "'local' sandbox is not isolated" in done.out + done.err


def test_run_without_the_plugin_names_the_distribution(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    stopped = run_agentbench("--no-plugin", "local", "run-task", "--task", str(make_task()), "--agent", "scripted")
    assert stopped.code == 2
    assert "no sandbox 'local'" in stopped.err
    assert "is part of agentbench-local; install it" in stopped.err
