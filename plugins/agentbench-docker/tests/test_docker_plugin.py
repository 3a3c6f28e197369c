"""What the distribution registers, and what importing it costs."""

import subprocess
import sys
from pathlib import Path

import click

from agentbench_docker import plugin
from agentbench_docker.command import docker

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")


def test_registers_the_command() -> None:
    registered = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("docker", "agentbench_docker.command:docker")]


def test_entry_module_and_command_module_import_nothing_heavy() -> None:
    """python-on-whales costs a quarter of a second: it lives in the probe's process only."""
    code = (
        "import sys, agentbench_docker.plugin, agentbench_docker.command;"
        f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_readme_documents_every_command_and_option() -> None:
    text = README.read_text()
    for name, command in docker.commands.items():
        assert f"agentbench docker {name}" in text
        for parameter in command.params:
            assert isinstance(parameter, click.Option)
            assert f"| `{parameter.opts[-1]}` |" in text
            assert str(parameter.help) in text
