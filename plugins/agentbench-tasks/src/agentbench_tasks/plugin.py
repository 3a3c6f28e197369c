"""What this distribution registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """What authors of tasks type."""
    module = "agentbench_tasks.command"
    register("tasks new", f"{module}:new_task", summary="Make a small task that works, to be turned into yours.")
    register("validate-tasks", f"{module}:validate_tasks", summary="Check that tasks are fair.")
