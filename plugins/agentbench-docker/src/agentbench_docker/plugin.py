"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import RegisterCommand, hookimpl


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench docker``."""
    register("docker", "agentbench_docker.command:docker", summary="look at the Docker engine")
