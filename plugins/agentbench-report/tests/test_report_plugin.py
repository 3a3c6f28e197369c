"""The registered components of the distribution, and the cost of importing it."""

import subprocess
import sys
from pathlib import Path

import click

from agentbench_core import NoOptions
from agentbench_report import plugin
from agentbench_report.command import report

README = Path(__file__).parent.parent / "README.md"
HEAVY = ("httpx", "jinja2", "matplotlib", "msgspec", "numpy", "scipy", "python_on_whales", "rich", "tabulate")


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


def shown(parameter: click.Parameter) -> str:
    """Return the default of an option as written in the README."""
    if parameter.required:
        return "required"
    if isinstance(parameter, click.Option) and isinstance(parameter.show_default, str):
        return parameter.show_default
    default = parameter.default
    return "" if default is False or not isinstance(default, str | int | float) else str(default)


def test_readme_documents_every_command_and_option() -> None:
    text = README.read_text()
    for name, command in report.commands.items():
        assert f"## agentbench report {name}" in text
        for parameter in command.params:
            assert isinstance(parameter, click.Option)
            row = f"| `{parameter.opts[0]}` | {shown(parameter)} | {parameter.help} |"
            assert row in text, f"{name}: {row}"


def test_readme_documents_every_reporter() -> None:
    """Reporters have no options, so nothing is created for them at startup."""
    registered = []
    plugin.agentbench_register_reporters(lambda name, make, options, *, summary: registered.append((name, options)))
    assert registered == [("summary", NoOptions), ("html", NoOptions)]
    assert all(f"| `{name}` | " in README.read_text() for name, _ in registered)
