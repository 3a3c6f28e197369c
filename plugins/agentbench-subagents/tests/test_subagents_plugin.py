"""What the distribution registers, and what importing it costs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from agentbench_core import describe
from agentbench_subagents import plugin
from agentbench_subagents.locate import LocateFailures, LocateFailuresArguments

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")


def test_registers_a_tool_that_its_factory_makes() -> None:
    registered: list[Any] = []

    def register(name: str, factory: Any, options: type, *, summary: str, capabilities: Any = ()) -> None:
        registered.append((name, factory(options()), summary, capabilities))

    plugin.agentbench_register_tools(register)
    ((name, tool, summary, capabilities),) = registered
    assert isinstance(tool, LocateFailures)
    assert (name, capabilities) == (tool.spec.name, ())
    assert summary


def test_entry_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, agentbench_subagents.plugin;"
        f"print(sorted(name for name in {(*HEAVY, 'agentbench_subagents.locate')!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_readme_has_the_table_of_arguments() -> None:
    text = README.read_text()
    for row in describe(LocateFailuresArguments):
        assert f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" in text
