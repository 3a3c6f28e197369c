"""The registered components, the cost of the import, and the tables of the README."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import click

from agentbench_core import describe, load
from agentbench_openrouter import plugin
from agentbench_openrouter.command import openrouter
from agentbench_openrouter.options import OpenRouterOptions

PACKAGE = Path(plugin.__file__).parent
README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate", "tenacity")


def test_registers_the_llm() -> None:
    registered = []

    def register(name: str, factory: Any, options: type, *, summary: str, capabilities: object = ()) -> None:
        registered.append((name, factory, options, capabilities))

    plugin.agentbench_register_llms(cast("Any", register))
    ((name, factory, options, capabilities),) = registered
    assert (name, options, capabilities) == ("openrouter", OpenRouterOptions, ("forwards",))
    made = factory(load({"base_url": "http://localhost/v1", "allow_fallbacks": False}, options, where="test"))
    assert "localhost" in repr(made)
    made.close()


def test_registers_the_command() -> None:
    registered = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("openrouter", "agentbench_openrouter.command:openrouter")]


def test_entry_module_and_command_module_import_nothing_heavy() -> None:
    code = (
        "import sys, agentbench_openrouter.plugin, agentbench_openrouter.command;"
        f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_only_one_file_imports_httpx() -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if "import httpx" in path.read_text()] == ["client.py"]


def test_readme_documents_every_command_and_option() -> None:
    text = README.read_text()
    for name, command in openrouter.commands.items():
        assert f"agentbench openrouter {name}" in text
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                shown = "" if parameter.is_flag else str(parameter.default)
                assert f"| `{parameter.opts[-1]}` | {shown} | {parameter.help} |".replace("|  |", "| |") in text


def test_readme_documents_every_option_of_the_llm() -> None:
    text = README.read_text()
    for row in describe(OpenRouterOptions):
        assert f"| `{row.name}` | {row.type} | {row.default} | {row.help} |" in text
