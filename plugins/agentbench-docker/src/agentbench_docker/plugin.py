"""Plugin entry points. Importing this module is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_docker.options import DockerOptions

if TYPE_CHECKING:  # every command loads this module
    from agentbench_core import Register, RegisterCommand, SandboxProvider

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Register the ``docker`` sandbox."""
    register(
        "docker",
        docker,
        DockerOptions,
        summary="one unprivileged container per attempt, without network access",
        capabilities=("isolated", "images", "programs"),
    )


def docker(options: DockerOptions) -> SandboxProvider:
    """Create the provider."""
    from agentbench_docker.provider import DockerProvider

    return DockerProvider(options)


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Register ``agentbench docker``."""
    register("docker", "agentbench_docker.command:docker", summary="manage the Docker engine, images and environments")
