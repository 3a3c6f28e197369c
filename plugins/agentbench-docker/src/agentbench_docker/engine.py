"""Information about a Docker engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import attrs

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line

if TYPE_CHECKING:
    from python_on_whales import DockerClient

OLDEST = (20, 10)
"""Oldest supported engine version. Older engines lack reliable cgroup support."""


@attrs.frozen(kw_only=True)
class EngineFacts:
    """Properties of an engine. An empty string means that the engine does not report the value."""

    host: str
    location: Literal["local", "remote"]
    """``local``: reached through a local socket."""
    version: str
    client: str
    runc: str
    runc_package: str
    """The build that the engine reports: a package version such as ``1.1.5+ds1-1+deb12u1``, or a commit."""
    default_runtime: str
    runtimes: tuple[str, ...]
    storage_driver: str
    cgroup_version: str
    security_options: tuple[str, ...]
    system: str
    kernel: str
    cpus: int
    memory: int
    """Memory of the engine's host in bytes; 0 if the engine does not report it."""
    root: str
    """Directory for images and containers."""


def inspect_engine(client: Client, deadline: Deadline) -> EngineFacts:
    """Query the engine that ``client`` reaches.

    Raises:
        UnavailableError: the engine is unreachable, did not answer in time, or answered with an error.
    """
    from python_on_whales import DockerException

    try:
        return client.call(lambda docker: _facts(client, docker), deadline, at_most=deadline.remaining())
    except SandboxError as error:
        raise UnavailableError(error.message, remedy=error.remedy) from error
    except DockerException as error:
        raise UnavailableError(
            f"the Docker engine at {client.host} returned an error: {one_line(error.stderr or str(error.return_code))}",
            remedy="Check the output of `docker version` and `docker info`.",
        ) from error
    except ValueError as error:  # python-on-whales could not parse it
        raise UnavailableError(
            f"the Docker engine at {client.host} returned an unreadable response: {one_line(str(error))}",
            remedy="Check the output of `docker version` and `docker info`.",
        ) from error


def _facts(client: Client, docker: DockerClient) -> EngineFacts:
    from python_on_whales.utils import run

    version = docker.version()
    server = version.server
    # python-on-whales does not know CgroupVersion.
    info: dict[str, Any] = json.loads(str(run([*docker.docker_cmd, "info", "--format", "{{json .}}"])))
    components = {part.name: part for part in (server.components if server else None) or []}
    runc = components.get("runc")
    return EngineFacts(
        host=client.host,
        location="local" if client.local else "remote",
        version=(server.version if server else None) or "",
        client=(version.client.version if version.client else None) or "",
        runc=(runc.version if runc else None) or "",
        runc_package=((runc.details if runc else None) or {}).get("GitCommit", ""),
        default_runtime=info.get("DefaultRuntime") or "",
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        storage_driver=info.get("Driver") or "",
        cgroup_version=info.get("CgroupVersion") or "",
        security_options=tuple(_readable(option) for option in info.get("SecurityOptions") or []),
        system=info.get("OperatingSystem") or "",
        kernel=info.get("KernelVersion") or "",
        cpus=info.get("NCPU") or 1,
        memory=info.get("MemTotal") or 0,
        root=info.get("DockerRootDir") or "",
    )


def _readable(option: str) -> str:
    """Convert ``name=seccomp,profile=default`` to ``seccomp (profile=default)``."""
    name, _, rest = option.removeprefix("name=").partition(",")
    return f"{name} ({rest})" if rest else name


def too_old(version: str) -> bool:
    """Whether an engine version is unsupported. A version that cannot be parsed is accepted."""
    numbers = version.lstrip("v").split(".")[:2]
    try:
        return tuple(map(int, numbers)) < OLDEST
    except ValueError:
        return False
