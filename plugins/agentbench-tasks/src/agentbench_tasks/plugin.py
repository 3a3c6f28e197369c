"""Registers this distribution's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1

_COMMANDS = (
    ("init", "init.command:init", "Prepare a repository: settings, a suite, a gate and a workflow."),
    ("tasks mine", "mining.command:mine_tasks", "Create tasks from the fixes in a repository's history."),
    ("tasks new", "new_command:new_task", "Create a small task, or one from a fix."),
    ("tasks pin", "pin:pin_tasks", "Write the commit of an edited task into task.yaml."),
    ("tasks refresh", "refresh:refresh", "Validate a suite again and retire tasks that no longer work."),
    ("tasks strengthen", "strengthen.command:strengthen_task", "Propose assertions for a task with weak verdicts."),
    ("validate-tasks", "command:validate_tasks", "Check that tasks are valid."),
)
"""Name, target in this package, and summary of each command."""


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """The commands for task authors."""
    for name, target, summary in _COMMANDS:
        register(name, f"agentbench_tasks.{target}", summary=summary)
