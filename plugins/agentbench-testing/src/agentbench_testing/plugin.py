"""Registers this distribution's commands. Imported by every command, so it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import RegisterCommand, hookimpl

AGENTBENCH_API = 1

_COMMANDS = "agentbench_testing.authoring.commands"


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add the commands for plugin authors to the ``agentbench plugins`` group."""
    register("plugins check", f"{_COMMANDS}:check_plugins", summary="check plugins for errors")
    register("plugins new", f"{_COMMANDS}:new_plugin", summary="create a working plugin as a starting point")
