"""Write docs/cli.md: the ``--help`` of every command of this project. A test holds the page to what this makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from agentbench_core.cli.app import App
from agentbench_core.cli.main import cli

PAGE = Path(__file__).parent.parent / "docs/cli.md"
OURS = frozenset(
    f"agentbench-{name}" for name in ("core", "docker", "integrity", "openrouter", "report", "tasks", "testing")
)
"""Distributions whose commands are on the page, whatever else is installed."""

HEAD = """\
# Command line

What `--help` says, made by `python benchmarks/cli_page.py`. `ab` is short for `agentbench`. Flags of `agentbench`
itself come before the command: `agentbench --debug run ...`. Exit codes are those of [configuration](configuration.md).

`docker` comes with `agentbench-docker`, `openrouter` with `agentbench-openrouter`, `report` with `agentbench-report`,
`tasks attack` with `agentbench-integrity`, `tasks new` and `validate-tasks` with `agentbench-tasks`, `plugins check`
and `plugins new` with `agentbench-testing`.
"""


def page() -> str:
    """The whole page."""
    found = App.from_environment(()).plugins.plugins
    app = App.from_environment(each.source.plugin for each in found if each.source.distribution not in OURS)
    context = click.Context(cli, info_name="agentbench", obj=app, terminal_width=100, **cli.context_settings)
    return "\n".join([HEAD, *sections(cli, context)])


def sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command and those below it."""
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from sections(below, click.Context(below, parent=context, info_name=name, terminal_width=100))


if __name__ == "__main__":
    os.environ.pop("AGENTBENCH_DISABLE_PLUGINS", None)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
