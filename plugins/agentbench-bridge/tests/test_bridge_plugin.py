"""The registered components, the cost of the import, and the tables of the README."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_bridge import plugin
from agentbench_bridge.options import ClaudeCodeOptions, CodexOptions, CommandOptions, OpenCodeOptions
from agentbench_bridge.programs.versions import known_programs
from agentbench_core import AgentBenchError, InputError, describe, load

README = Path(__file__).parent.parent / "README.md"
AGENTS = {
    "claude-code": ClaudeCodeOptions,
    "codex": CodexOptions,
    "opencode": OpenCodeOptions,
    "command": CommandOptions,
}
ENTRIES = {"claude-code": "claude", "codex": "codex", "opencode": "opencode"}
"""The executable file of each agent with a program of its own."""
LATER = ("aiohttp", "asyncio", "click", "platformdirs", "agentbench_bridge.agents", "agentbench_bridge.gateway")


def registered(hook: Any) -> dict[str, tuple[Any, ...]]:
    """What a hook registers, by name."""
    found: dict[str, tuple[Any, ...]] = {}

    def register(name: str, *values: Any, summary: str, capabilities: Any = ()) -> None:
        assert summary
        found[name] = (*values, capabilities)

    hook(register)
    return found


def test_registers_agents_that_are_programs() -> None:
    found = registered(plugin.agentbench_register_agents)
    assert {name: options for name, (_, options, _) in found.items()} == AGENTS
    assert {frozenset(capabilities) for _, _, capabilities in found.values()} == {
        frozenset({"needs_llm", "needs_sandbox"})
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_agent_from_a_directory(name: str, tmp_path: Path) -> None:
    """The directory is mounted, and its digest identifies the program."""
    factory, options, _ = registered(plugin.agentbench_register_agents)[name]
    with pytest.raises(InputError, match=f"contains no executable file '{ENTRIES[name]}'"):
        _ = factory(options(program=str(tmp_path))).identity
    directory = tmp_path / "files"
    directory.mkdir()
    (directory / ENTRIES[name]).write_text("#!/bin/sh\n")
    (directory / ENTRIES[name]).chmod(0o755)
    agent = factory(options(program=str(directory)))
    assert agent.programs == {"program": directory}
    assert agent.identity["program"] == name
    assert agent.identity["digest"].startswith("sha256:")


@pytest.mark.parametrize("name", AGENTS)
def test_factories_need_no_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is reported when a run asks for the program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    factory, options, _ = registered(plugin.agentbench_register_agents)[name]
    agent = factory(options())
    with pytest.raises(AgentBenchError, match=r"is not installed|has no command") as refused:
        _ = agent.identity
    assert refused.value.remedy


def test_the_variant_runs_a_program_that_can_be_installed() -> None:
    ((name, (settings, _)),) = registered(plugin.agentbench_register_variants).items()
    options = dict(settings["agent"])
    assert options.pop("name") == "command"
    assert load(options, CommandOptions, where="variant").installed == name
    assert name in known_programs()


def test_the_command_is_imported_on_first_use() -> None:
    assert registered(plugin.agentbench_register_commands) == {
        "agents": ("agentbench_bridge.programs.command:agents", ())
    }


def test_entry_module_imports_nothing_heavy() -> None:
    code = f"import sys, agentbench_bridge.plugin; print(sorted(name for name in {LATER!r} if name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


@pytest.mark.parametrize("described", AGENTS.values())
def test_readme_has_the_options(described: type) -> None:
    text = README.read_text()
    for row in describe(described):
        assert f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" in text
