"""Registers this distribution's commands. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:  # every command loads this module
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Register ``agentbench executor`` and ``agentbench worker``."""
    register("executor", "agentbench_workers.commands:executor", summary="prepare machines that run attempts together")
    register("worker", "agentbench_workers.commands:worker", summary="run attempts of another machine on this one")
