"""Whose containers and networks these are, and what is done about those of the dead."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench_core import Deadline, SandboxError, Scratch
from agentbench_docker.client import Client

if TYPE_CHECKING:
    from python_on_whales import DockerClient

OWNER = "agentbench.owner"
"""Label: the scratch directory of the provider that made it, whose lock is free when that one is dead."""
USER = "agentbench.uid"
ENVIRONMENT = "agentbench.environment"
"""Label of what belongs to a prepared environment: its key."""
PURPOSE = "docker"
"""Names the scratch directories of this sandbox."""
SWEEP_SEC = 120.0


def labels(place: Path) -> dict[str, str]:
    """What a provider with the scratch directory ``place`` puts on every container and network."""
    return {OWNER: str(place), USER: str(os.geteuid())}


def sweep(client: Client) -> list[str]:
    """Remove containers and networks of this user's providers that are dead; says what that was."""
    return client.call(lambda docker: _remove(docker, f"{USER}={os.geteuid()}", _is_dead), Deadline(SWEEP_SEC))


def remove_all_of(client: Client, place: Path) -> None:
    """Remove what a provider that ends still has."""
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException, SandboxError):
        client.call(lambda docker: _remove(docker, f"{OWNER}={place}", lambda labels: True), Deadline(SWEEP_SEC))


def _remove(docker: DockerClient, label: str, wanted: Callable[[Mapping[str, str]], bool]) -> list[str]:
    from python_on_whales import DockerException

    removed = []
    for container in docker.container.list(all=True, filters=[("label", label)]):
        with contextlib.suppress(DockerException):  # somebody else was faster
            if wanted(container.config.labels or {}):
                docker.container.remove(container.id, force=True, volumes=True)
                removed.append(f"container {container.id[:12]}")
    for network in docker.network.list(filters=[("label", label)]):
        with contextlib.suppress(DockerException):
            name = network.name
            if wanted(network.labels or {}):
                docker.network.remove(network.id)
                removed.append(f"network {name}")
    return removed


def _is_dead(labels: Mapping[str, str]) -> bool:
    owner = labels.get(OWNER, "")
    return bool(owner) and not Scratch.alive(Path(owner))
