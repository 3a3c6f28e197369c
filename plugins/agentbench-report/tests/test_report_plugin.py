"""What the distribution registers, and what importing it costs."""

import subprocess
import sys
from pathlib import Path

import click

from agentbench_report import plugin
from agentbench_report.command import report

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")


def test_registers_the_command() -> None:
    registered = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("report", "agentbench_report.command:report")]


def test_entry_module_and_command_module_import_nothing_heavy() -> None:
    code = (
        "import sys, agentbench_report.plugin, agentbench_report.command;"
        f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_readme_documents_every_command_and_option() -> None:
    text = README.read_text()
    for name, command in report.commands.items():
        assert f"agentbench report {name}" in text
        for parameter in command.params:
            assert isinstance(parameter, click.Option)
            default = "required" if parameter.required else str(parameter.default)
            assert f"| `{parameter.opts[0]}` | {default} | {parameter.help} |" in text
