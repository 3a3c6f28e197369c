"""Command groups: core and plugin commands, by name. Only the invoked command is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from agentbench_core.cli.app import CORE_COMMANDS, App
from agentbench_core.errors import PluginError, did_you_mean
from agentbench_core.plugin.kinds import COMMAND_GROUPS
from agentbench_core.plugin.registry import provided_by


class CommandGroup(click.Group):
    """``agentbench`` itself, or one of its groups, such as ``agentbench tasks``.

    ``within`` is the prefix of its commands in the table and in the registry: empty, or ``"tasks "``.
    """

    def __init__(self, *args: Any, within: str = "", **settings: Any) -> None:
        """Create an empty group: commands are looked up on demand."""
        super().__init__(*args, **settings)
        self._within = within

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands directly in this group."""
        return list(self._summaries(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command with that name. Raises PluginError if a plugin's command fails to load."""
        name = self._within + cmd_name
        if name in COMMAND_GROUPS:
            summary = COMMAND_GROUPS[name]
            return CommandGroup(cmd_name, within=f"{name} ", help=summary, no_args_is_help=True)
        if name in CORE_COMMANDS:
            module, _, attribute = CORE_COMMANDS[name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        if name not in App.of(ctx).registry.names("command"):
            return None
        return _load_plugin_command(App.of(ctx), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does. Raises UsageError, with a hint, for unknown names."""
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name and not name.startswith("-") and name not in known:
            raise click.UsageError(f"no command {self._within + name!r}{self._hint(name, known)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Exit with 141 if the output pipe is closed, since status 1 is reserved for failed checks."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise SystemExit(141) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries(ctx).items()))

    def _hint(self, name: str, known: Sequence[str]) -> str:
        if ours := provided_by("command", self._within + name):
            return f"; {ours}"
        missing = "; to list the installed plugins: agentbench plugins list"
        return did_you_mean(name, known) or missing

    def _summaries(self, ctx: click.Context) -> Mapping[str, str]:
        """The commands directly in this group, sorted. Core commands override plugin commands of the same name."""
        everywhere = {
            **{component.name: _as_sentence(component.summary) for component in App.of(ctx).registry.all("command")},
            **{name: summary for name, (_, summary) in CORE_COMMANDS.items()},
            **COMMAND_GROUPS,
        }
        below = {
            name.removeprefix(self._within): summary
            for name, summary in sorted(everywhere.items())
            if name.startswith(self._within)
        }
        return {name: summary for name, summary in below.items() if " " not in name}


def _load_plugin_command(app: App, name: str) -> click.Command:
    component = app.registry.find("command", name)
    loaded = component.load()
    if not isinstance(loaded, click.Command):
        raise PluginError(f"{component.target} of {component.source.distribution} is not a click command")
    return loaded


def _as_sentence(summary: str) -> str:
    """The summary formatted like the core's summaries; tables of components show it unchanged."""
    return f"{summary[:1].upper()}{summary[1:].rstrip('.')}."
