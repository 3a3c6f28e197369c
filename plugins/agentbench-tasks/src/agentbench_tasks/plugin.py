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
    register(
        "tasks mine",
        "agentbench_tasks.mining.command:mine_tasks",
        summary="Create tasks from the fixes in a repository's history.",
    )
    register("tasks new", "agentbench_tasks.new_command:new_task", summary="Create a small task, or one from a fix.")
    register(
        "tasks strengthen",
        "agentbench_tasks.strengthen.command:strengthen_task",
        summary="Propose assertions for a task whose verdicts are weak.",
    )
    register("validate-tasks", f"{module}:validate_tasks", summary="Check that tasks are valid.")
