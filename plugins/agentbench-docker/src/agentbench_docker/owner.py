"""Whose containers, networks and images these are, and what is done about those of the dead."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench_core import Deadline, SandboxError, Scratch
from agentbench_docker.client import Client

if TYPE_CHECKING:
    from python_on_whales import DockerClient

OWNER = "agentbench.owner"
"""Label: the scratch directory of the provider that made it, whose lock is free when that one is dead."""
USER = "agentbench.uid"
CACHE = "agentbench.cache"
"""Label: the directory that knows which environments are whole."""
ENVIRONMENT = "agentbench.environment"
"""Label of what belongs to a prepared environment: its key."""
PURPOSE = "docker"
"""Names the scratch directories of this sandbox."""
SWEEP_SEC = 120.0


def labels(place: Path, cache: Path) -> dict[str, str]:
    """What a provider with these directories for its scratch and its environments puts on everything that it makes."""
    return {OWNER: str(place), USER: str(os.geteuid()), CACHE: str(cache)}


def sweep(client: Client, cache: Path, kept: Collection[str]) -> list[str]:
    """Remove what this user's providers that are dead left behind; says what that was.

    Containers, networks, and images of environments of that cache which are not among ``kept``: their preparation did
    not end.
    """

    def work(docker: DockerClient) -> list[str]:
        found = _remove(docker, f"{USER}={os.geteuid()}", _is_dead)
        return found + _remove_images(docker, f"{CACHE}={cache}", kept)

    return client.call(work, Deadline(SWEEP_SEC))


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


def _remove_images(docker: DockerClient, label: str, kept: Collection[str]) -> list[str]:
    from python_on_whales import DockerException

    removed = []
    for image in docker.image.list(filters=[("label", label)]):
        with contextlib.suppress(DockerException):
            found = image.config.labels or {}
            if image.id not in kept and _is_dead(found):
                docker.image.remove(image.id, force=True)
                removed.append(f"image {image.id.removeprefix('sha256:')[:12]}")
    return removed


def _is_dead(labels: Mapping[str, str]) -> bool:
    owner = labels.get(OWNER, "")
    return bool(owner) and not Scratch.alive(Path(owner))
