"""The registered components, the cost of the import, and the tables of the README."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import describe
from agentbench_subagents import plugin
from agentbench_subagents.locate import LocateFailures, LocateFailuresArguments
from agentbench_subagents.options import ContextPackerOptions, SubagentsOptions
from agentbench_subagents.packer import ContextPacker
from agentbench_subagents.reports import Decision, PatchReport, SearchReport, TestReport
from agentbench_subagents.routing import Subagents, roles

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")
LATER = ("locate", "packer", "routing", "imports", "sources")


def registered(hook: Any) -> list[tuple[str, Any, str, Any]]:
    """Name, component made with default options, summary, capabilities."""
    result: list[Any] = []

    def register(name: str, factory: Any, options: type, *, summary: str, capabilities: Any = ()) -> None:
        result.append((name, factory(options()), summary, capabilities))

    hook(register)
    return result


def test_registers_a_tool_that_its_factory_makes() -> None:
    ((name, tool, summary, capabilities),) = registered(plugin.agentbench_register_tools)
    assert isinstance(tool, LocateFailures)
    assert (name, capabilities) == (tool.spec.name, ())
    assert summary


def test_registers_two_agents_that_need_a_model() -> None:
    result = registered(plugin.agentbench_register_agents)
    assert [(name, type(agent), capabilities) for name, agent, _, capabilities in result] == [
        ("context_packer", ContextPacker, {"needs_llm"}),
        ("subagents", Subagents, {"needs_llm"}),
    ]
    assert all(summary for _, _, summary, _ in result)


def test_both_agents_are_variants(tmp_path: Path) -> None:
    def printed(*arguments: str) -> Any:
        command = [str(Path(sys.executable).with_name("agentbench")), *arguments, "--json"]
        return json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)

    rows = printed("plugins", "list", "--kind", "variant")
    names = [row["name"] for row in rows if row["distribution"] == "agentbench-subagents"]
    assert names == ["context_packer", "subagents"]
    shown = printed("config", "show", *(f"--variant={name}" for name in names))
    assert {name: leaves["agent.name"]["value"] for name, leaves in shown.items()} == {name: name for name in names}


def test_entry_module_imports_nothing_heavy() -> None:
    later = tuple(f"agentbench_subagents.{name}" for name in LATER)
    code = (
        "import sys, agentbench_subagents.plugin;"
        f"print(sorted(name for name in {(*HEAVY, *later)!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


@pytest.mark.parametrize(
    "described",
    [
        LocateFailuresArguments,
        ContextPackerOptions,
        SubagentsOptions,
        Decision,
        SearchReport,
        PatchReport,
        TestReport,
    ],
)
def test_readme_has_the_tables(described: type) -> None:
    text = README.read_text()
    for row in describe(described):
        assert f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" in text


def test_readme_lists_every_role_with_its_tools() -> None:
    text = README.read_text()
    for role in (roles("v2").router, roles("v2").searcher, roles("v2").patcher, roles("v2").tester):
        tools = "read-only tools" if role.reads else "none"
        assert f"| {role.name} | {tools} | `{role.report_tool}` |" in text
