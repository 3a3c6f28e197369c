"""The registered components, the cost of the import, and the tables of the README."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import describe
from agentbench_outline import plugin
from agentbench_outline.agent import OutlineFirst
from agentbench_outline.options import OutlineFirstOptions, OutlineOptions
from agentbench_outline.tool import Outline, OutlineArguments

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def registered(hook: Any) -> Any:
    """The arguments that a hook passes to ``register`` for its only component."""
    calls: list[Any] = []
    hook(lambda *arguments, **more: calls.append((*arguments, more)))
    (one,) = calls
    return one


def test_a_tool_an_agent_and_a_variant() -> None:
    name, factory, options, more = registered(plugin.agentbench_register_tools)
    assert (name, type(factory(options()))) == ("outline", Outline)
    assert more["summary"]
    name, factory, options, more = registered(plugin.agentbench_register_agents)
    assert (name, type(factory(options())), more["capabilities"]) == ("outline-first", OutlineFirst, {"needs_llm"})
    name, settings, more = registered(plugin.agentbench_register_variants)
    assert (name, settings["agent"]) == ("outline-first", "outline-first")
    assert "outline" in settings["tools"]


def test_the_entry_module_imports_only_the_options() -> None:
    code = "import sys, agentbench_outline.plugin; print(sorted(n for n in sys.modules if 'outline' in n))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    names = ["agentbench_outline", "agentbench_outline.options", "agentbench_outline.plugin"]
    assert shown.stdout == f"{names}\n", shown.stderr


@pytest.mark.parametrize("described", [OutlineArguments, OutlineOptions, OutlineFirstOptions])
def test_the_readme_has_the_tables(described: type) -> None:
    for row in describe(described):
        assert f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" in README
