"""Registers this distribution's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """The commands for task authors."""
    module = "agentbench_tasks.command"
    register("tasks new", f"{module}:new_task", summary="Create a small working task as a starting point.")
    register("validate-tasks", f"{module}:validate_tasks", summary="Check that tasks are valid.")
