"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_docker.options import DockerOptions

if TYPE_CHECKING:  # every command loads this module: it imports no more than it needs
    from agentbench_core import Register, RegisterCommand, SandboxProvider

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Add the sandbox ``docker``."""
    register(
        "docker",
        docker,
        DockerOptions,
        summary="a container per attempt, without network and without rights",
        capabilities=("isolated", "images"),
    )


def docker(options: DockerOptions) -> SandboxProvider:
    """Make the provider."""
    from agentbench_docker.provider import DockerProvider

    return DockerProvider(options)


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench docker``."""
    register("docker", "agentbench_docker.command:docker", summary="the Docker engine, images and environments")
