"""Information about a Docker engine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Literal

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
        return client.call(lambda docker: _facts(client, docker, deadline), deadline, at_most=deadline.remaining())
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


def _facts(client: Client, docker: DockerClient, deadline: Deadline) -> EngineFacts:
    version = docker.version()
    server = version.server
    info = docker.system.info()
    components = {part.name: part for part in (server.components if server else None) or []}
    runc = components.get("runc")
    return EngineFacts(
        host=client.host,
        location="local" if client.local else "remote",
        version=(server.version if server else None) or "",
        client=(version.client.version if version.client else None) or "",
        runc=(runc.version if runc else None) or "",
        runc_package=((runc.details if runc else None) or {}).get("GitCommit", ""),
        default_runtime=info.default_runtime or "",
        runtimes=tuple(sorted(info.runtimes or {})),
        storage_driver=info.driver or "",
        cgroup_version=_cgroup_version(client, deadline),
        security_options=tuple(_readable(option) for option in info.security_options or []),
        system=info.operating_system or "",
        kernel=info.kernel_version or "",
        cpus=info.n_cpu or 1,
        memory=info.mem_total or 0,
        root=str(info.docker_root_dir or ""),
    )


def _cgroup_version(client: Client, deadline: Deadline) -> str:
    """``1`` or ``2``; empty if the query fails, as before Engine 20.10. python-on-whales lacks this field."""
    command = [*client.argv(max(1.0, min(10.0, deadline.remaining()))), "info", "--format", "{{.CgroupVersion}}"]
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    return result.stdout.strip() if result.returncode == 0 else ""


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
