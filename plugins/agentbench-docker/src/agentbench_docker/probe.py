"""Run as a program by :mod:`agentbench_docker.engine`: prints what the engine says as one JSON object.

A process of its own because python-on-whales has no timeouts; its parent kills it at the deadline.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from python_on_whales import ClientNotFoundError, DockerClient, DockerException


def answer(config: str) -> dict[str, Any]:
    """``{"facts": ...}``, or ``{"problem": "no_client" | "no_engine", "detail": ...}``."""
    client = DockerClient(config=config)
    try:
        return {"facts": _facts(client)}
    except ClientNotFoundError as error:
        return {"problem": "no_client", "detail": str(error)}
    except DockerException as error:
        return {"problem": "no_engine", "detail": error.stderr or f"exit code {error.return_code}"}


def _facts(client: DockerClient) -> dict[str, Any]:
    version = client.version()
    server = version.server
    info = client.system.info()
    components = {part.name: part for part in (server.components if server else None) or []}
    runc = components.get("runc")
    return {
        "version": (server.version if server else None) or "",
        "client": (version.client.version if version.client else None) or "",
        "runc": (runc.version if runc else None) or "",
        "runc_package": ((runc.details if runc else None) or {}).get("GitCommit", ""),
        "default_runtime": info.default_runtime or "",
        "storage_driver": info.driver or "",
        "cgroup_version": _cgroup_version(client),
        "security_options": [_readable(option) for option in info.security_options or []],
        "system": info.operating_system or "",
        "kernel": info.kernel_version or "",
    }


def _cgroup_version(client: DockerClient) -> str:
    """``1`` or ``2``, or empty before Engine 20.10; python-on-whales' own model drops the field."""
    command = [*map(str, client.docker_cmd), "info", "--format", "{{.CgroupVersion}}"]
    shown = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return shown.stdout.strip() if shown.returncode == 0 else ""


def _readable(option: str) -> str:
    """``seccomp (profile=default)`` for ``name=seccomp,profile=default``."""
    name, _, rest = option.removeprefix("name=").partition(",")
    return f"{name} ({rest})" if rest else name


if __name__ == "__main__":
    print("\n" + json.dumps(answer(sys.argv[1])))  # on a line of its own, whatever a library printed before
