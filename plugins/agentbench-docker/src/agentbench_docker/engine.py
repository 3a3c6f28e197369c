"""What a Docker engine says of itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Literal

import attrs

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line

if TYPE_CHECKING:
    from python_on_whales import DockerClient

OLDEST = (20, 10)
"""Before this version the engine knows neither of the two cgroup versions well."""


@attrs.frozen(kw_only=True)
class EngineFacts:
    """What an engine says of itself. Empty text means that it does not say."""

    host: str
    location: Literal["local", "remote"]
    """``local``: reached through a socket of this machine's file system."""
    version: str
    client: str
    runc: str
    runc_package: str
    """The build that packaged it, such as ``1.1.5+ds1-1+deb12u1``."""
    default_runtime: str
    runtimes: tuple[str, ...]
    storage_driver: str
    cgroup_version: str
    security_options: tuple[str, ...]
    system: str
    kernel: str
    cpus: int
    memory: int
    """Bytes."""
    root: str
    """Where it keeps images and containers."""


def look(client: Client, deadline: Deadline) -> EngineFacts:
    """The facts of the engine that ``client`` reaches.

    Raises:
        UnavailableError: no engine, or no answer in time; says what to do.
    """
    from python_on_whales import DockerException

    try:
        return client.call(lambda docker: _facts(client, docker, deadline), deadline, at_most=deadline.remaining())
    except SandboxError as error:
        raise UnavailableError(error.message, remedy=error.remedy) from error
    except DockerException as error:
        raise UnavailableError(
            f"the Docker engine at {client.host} refuses to answer: {one_line(error.stderr or str(error.return_code))}",
            remedy="Compare with what `docker version` and `docker info` print.",
        ) from error
    except ValueError as error:  # python-on-whales could not read it
        raise UnavailableError(
            f"the Docker engine at {client.host} gave an answer that cannot be read: {one_line(str(error))}",
            remedy="Compare with what `docker version` and `docker info` print.",
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
    """``1`` or ``2``, or empty before Engine 20.10; python-on-whales' own model drops the field."""
    command = [*client.argv(max(1.0, min(10.0, deadline.remaining()))), "info", "--format", "{{.CgroupVersion}}"]
    shown = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    return shown.stdout.strip() if shown.returncode == 0 else ""


def _readable(option: str) -> str:
    """``seccomp (profile=default)`` for ``name=seccomp,profile=default``."""
    name, _, rest = option.removeprefix("name=").partition(",")
    return f"{name} ({rest})" if rest else name


def too_old(version: str) -> bool:
    """Whether an engine of that version cannot be used; one that cannot be read may."""
    numbers = version.lstrip("v").split(".")[:2]
    try:
        return tuple(map(int, numbers)) < OLDEST
    except ValueError:
        return False
