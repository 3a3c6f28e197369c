"""Ask the Docker engine what it is, without ever waiting for one that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core import Deadline, UnavailableError, load

DEFAULT_HOST = "unix:///var/run/docker.sock"

_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "SSH_AUTH_SOCK"),
        *("DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
"""What the client needs to reach an engine; keys of model providers are not among it."""


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
    storage_driver: str
    cgroup_version: str
    security_options: tuple[str, ...]
    system: str
    kernel: str


def look(environ: Mapping[str, str], deadline: Deadline) -> EngineFacts:
    """The facts of the engine that ``environ`` (``DOCKER_HOST``) points at.

    The client runs in a process group of its own, which is killed at the deadline, and with an empty
    configuration directory of its own: ``~/.docker/config.json`` may hold proxies with passwords and helpers
    that start programs.

    Raises:
        UnavailableError: no client, no engine, or no answer in time; says what to do.
    """
    _refuse_context(environ)
    host = environ.get("DOCKER_HOST") or DEFAULT_HOST
    with tempfile.TemporaryDirectory(prefix="agentbench-docker-") as scratch:
        answer = _ask(environ, Path(scratch), host, deadline)
    if "facts" not in answer:
        raise _no_engine(host, answer)
    location = "local" if host.startswith(("unix://", "npipe://", "fd://")) else "remote"
    return load({**answer["facts"], "host": host, "location": location}, EngineFacts, where="the engine's answer")


def _ask(environ: Mapping[str, str], scratch: Path, host: str, deadline: Deadline) -> dict[str, Any]:
    """Run the probe. It writes to a file: a pipe could stay open in what it leaves behind."""
    config = scratch / "config"
    config.mkdir()
    allowed = deadline.remaining()
    with (scratch / "answer").open("w+b") as output:
        probe = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentbench_docker.probe", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(environ, config),
            start_new_session=True,
        )
        try:
            probe.wait(timeout=allowed)
        except subprocess.TimeoutExpired:
            _kill(probe)
            raise UnavailableError(
                f"the Docker engine at {host} did not answer within {allowed:.0f} s",
                remedy="Look at its log, restart dockerd, or point DOCKER_HOST at another engine.",
            ) from None
        except BaseException:
            _kill(probe)
            raise
        output.seek(0)
        text = output.read().decode("utf-8", "backslashreplace")
    try:
        answer = json.loads(text.strip().rpartition("\n")[2])
    except json.JSONDecodeError:
        answer = None
    return answer if isinstance(answer, dict) else {"problem": "answer", "detail": text}


def _kill(probe: subprocess.Popen[bytes]) -> None:
    """Kill the probe and the docker client that it started. It has not been waited for, so the id is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(probe.pid, signal.SIGKILL)
    probe.wait()


def _environment(environ: Mapping[str, str], config: Path) -> dict[str, str]:
    passed = {name: value for name, value in environ.items() if name in _PASSED_ON}
    if passed.get("DOCKER_TLS_VERIFY") or passed.get("DOCKER_TLS"):
        # The client looks for certificates in its configuration directory, which is not the user's here.
        home = environ.get("DOCKER_CONFIG") or str(Path(environ.get("HOME", "/")) / ".docker")
        passed.setdefault("DOCKER_CERT_PATH", home)
    return passed | {"DOCKER_CONFIG": str(config)}


def _refuse_context(environ: Mapping[str, str]) -> None:
    name = environ.get("DOCKER_CONTEXT", "")
    if name not in ("", "default") and not environ.get("DOCKER_HOST"):
        raise UnavailableError(
            f"DOCKER_CONTEXT is {name!r}, and AgentBench does not read docker contexts",
            remedy="Type: export DOCKER_HOST=$(docker context inspect --format '{{.Endpoints.docker.Host}}')",
        )


def _no_engine(host: str, answer: Mapping[str, Any]) -> UnavailableError:
    detail = " ".join("".join(c if c.isprintable() else " " for c in str(answer.get("detail", ""))).split())[-300:]
    if answer.get("problem") == "no_client":
        return UnavailableError(
            "there is no docker command on the PATH", remedy="Install Docker, for instance: apt-get install docker.io"
        )
    if answer.get("problem") == "no_engine":
        return UnavailableError(
            f"no Docker engine answers at {host}: {detail}",
            remedy="Install docker and start dockerd, or set DOCKER_HOST to where an engine listens "
            "(docker contexts are not read).",
        )
    return UnavailableError(
        f"the Docker engine at {host} gave an answer that cannot be read: {detail}",
        remedy="Compare with what `docker version` and `docker info` print.",
    )
