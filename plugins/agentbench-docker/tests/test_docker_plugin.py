"""What the distribution registers, and the cost of importing it."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import click

from agentbench_core import describe
from agentbench_docker import plugin
from agentbench_docker.command import docker
from agentbench_docker.options import DockerOptions

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")


def test_registers_the_sandbox_and_the_command() -> None:
    sandboxes = []

    def register(name: str, factory: object, options: object, *, summary: str, capabilities: object) -> None:
        sandboxes.append((name, options, capabilities))

    plugin.agentbench_register_sandboxes(cast("Any", register))
    assert sandboxes == [("docker", DockerOptions, ("isolated", "images", "programs"))]

    registered = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("docker", "agentbench_docker.command:docker")]


def test_entry_module_and_command_module_import_nothing_heavy() -> None:
    """python-on-whales takes a quarter of a second to import, so it is imported only when needed."""
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
            if not isinstance(parameter, click.Option):
                continue
            assert f"| `{parameter.opts[-1]}` |" in text
            assert str(parameter.help) in text
    for row in describe(DockerOptions):
        assert f"| `{row.name}` |" in text
        assert row.help in text
