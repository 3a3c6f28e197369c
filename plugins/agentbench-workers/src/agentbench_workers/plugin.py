"""Registers this distribution's executor and commands. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_workers.options import WorkersOptions

if TYPE_CHECKING:  # every command loads this module
    from agentbench_core import Executor, Register, RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Register ``agentbench executor`` and ``agentbench worker``."""
    register(
        "executor",
        "agentbench_workers.commands:executor",
        summary="prepare several machines to share the attempts of a run",
    )
    register("worker", "agentbench_workers.commands:worker", summary="run another machine's attempts on this one")


@hookimpl
def agentbench_register_executors(register: Register[Executor]) -> None:
    """Register the executor."""
    register(
        "workers",
        workers,
        WorkersOptions,
        summary="in worker processes, on this machine or on others",
        capabilities={"remote"},
    )


def workers(options: WorkersOptions) -> Executor:
    """Create the ``workers`` executor."""
    from agentbench_workers.executor import WorkersExecutor

    return WorkersExecutor(options)
