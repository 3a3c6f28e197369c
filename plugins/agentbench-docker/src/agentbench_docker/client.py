"""Runs the ``docker`` command with a minimal environment and a time limit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentbench_core import Deadline, SandboxError, UnavailableError

if TYPE_CHECKING:
    from python_on_whales import DockerClient

DEFAULT_HOST = "unix:///var/run/docker.sock"
CALL_SEC = 60.0
"""Default time limit of one client call."""

_FORWARDED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SSH_AUTH_SOCK"),
        *("DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
"""Variables that the client needs to reach an engine. API keys of model providers are not forwarded."""

# `timeout` puts the client into a separate process group, so Ctrl-C in a terminal does not reach it.
_SCRIPT = """\
#!/usr/bin/env -S -i /bin/sh
{exports}
seconds=$1
shift
exec timeout -s KILL "$seconds" docker "$@"
"""

T = TypeVar("T")


class Client:
    """Runs ``docker`` through a wrapper script, which keeps secrets off the command line.

    The configuration directory is empty. The user's own may contain proxy passwords, which docker would pass to
    every container, and credential helpers, which start programs.
    """

    def __init__(self, environ: Mapping[str, str], directory: Path, *, own_config: bool = False) -> None:
        """``directory`` is an existing directory that must outlive the client.

        ``own_config``: use the user's configuration, which contains credentials for registries. No container may be
        started with it.

        Raises UnavailableError if a required program is missing or an environment variable is not supported.
        """
        _check_environment(environ)
        for program, package in (("docker", "docker.io"), ("timeout", "coreutils")):
            if shutil.which(program, path=environ.get("PATH")) is None:
                raise UnavailableError(
                    f"the {program} command was not found on PATH", remedy=f"Run: apt-get install {package}"
                )
        self.host = environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._script = directory / "docker"
        config = directory / "config"
        config.mkdir()
        if own_config:
            config = _own_config(environ)
        exports = [f"export {name}={shlex.quote(value)}" for name, value in _variables(environ, config).items()]
        self._script.touch(mode=0o700)
        self._script.write_text(_SCRIPT.format(exports="\n".join(exports)))

    @property
    def local(self) -> bool:
        """Whether the engine is reached through a local socket."""
        return self.host.startswith(("unix://", "npipe://", "fd://"))

    def argv(self, seconds: float) -> list[str]:
        """The start of a client command line. The client is killed after ``seconds``; 0 means no limit."""
        return [str(self._script), f"{seconds:.3f}"]

    def call(self, work: Callable[[DockerClient], T], deadline: Deadline, *, at_most: float = CALL_SEC) -> T:
        """Call ``work`` with a client that limits each docker call to ``at_most`` seconds.

        The call may outlast the deadline, so that a hanging engine is not reported as a command timeout.

        Raises:
            DeadlineExceeded: the deadline had expired before the call.
            SandboxError: the engine is unreachable or did not answer in time, or the client cannot be executed.
            DockerException: the engine rejected the call.
        """
        from python_on_whales import ClientNotFoundError, DockerClient, DockerException  # takes 0.25 s to import

        deadline.check()
        try:
            return work(DockerClient(client_call=self.argv(at_most), client_type="docker"))
        except (ClientNotFoundError, PermissionError) as error:
            raise SandboxError(
                f"could not execute {self._script}: {one_line(str(error))}",
                remedy="Set TMPDIR to a directory that is not mounted noexec.",
            ) from None
        except DockerException as error:
            if error.return_code in (137, -9):
                raise SandboxError(
                    f"the Docker engine at {self.host} did not answer within {at_most:.0f} s",
                    remedy="Check the dockerd log, restart dockerd, or set DOCKER_HOST to another engine.",
                ) from None
            if is_unreachable(error.stderr or ""):
                raise self.unreachable(error.stderr or "") from None
            raise

    def unreachable(self, message: str) -> SandboxError:
        """The error for an unreachable engine."""
        return SandboxError(
            f"cannot reach a Docker engine at {self.host}: {one_line(message)}",
            remedy="Install Docker and start dockerd, or set DOCKER_HOST to the engine's address "
            "(docker contexts are not read).",
        )


def listed(docker: DockerClient, *words: str, fields: Sequence[str], missing: bool = False) -> list[list[Any]]:
    """The rows of a docker command that lists something, with these ``fields`` of each item.

    Makes one call, while python-on-whales queries each item separately. Raises DockerException. With ``missing``,
    returns the rows that a failed command printed, since only some of the items may be missing.
    """
    from python_on_whales import DockerException
    from python_on_whales.utils import run

    row = ",".join(f"{{{{json {field}}}}}" for field in fields)
    try:
        printed = str(run([*docker.docker_cmd, *words, "--format", f"[{row}]"]))
    except DockerException as error:
        if not missing:
            raise
        printed = error.stdout or ""
    return [json.loads(line) for line in printed.splitlines() if line]


def is_unreachable(stderr: str) -> bool:
    """Whether the client's error output indicates an unreachable engine."""
    signs = ("Cannot connect to the Docker daemon", "error during connect")
    return any(sign in stderr for sign in signs)


def one_line(text: str) -> str:
    """The end of a program's output as one printable line of at most 300 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[-300:]


def _variables(environ: Mapping[str, str], config: Path) -> dict[str, str]:
    passed = {name: value for name, value in environ.items() if name in _FORWARDED}
    if passed.get("DOCKER_TLS_VERIFY") or passed.get("DOCKER_TLS"):
        # The client reads certificates from its configuration directory, which is empty here.
        passed.setdefault("DOCKER_CERT_PATH", str(_own_config(environ)))
    return passed | {"DOCKER_CONFIG": str(config), "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0")}


def _own_config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/")) / ".docker")


def _check_environment(environ: Mapping[str, str]) -> None:
    name = environ.get("DOCKER_CONTEXT", "")
    if name not in ("", "default") and not environ.get("DOCKER_HOST"):
        raise UnavailableError(
            f"DOCKER_CONTEXT is {name!r}, but AgentBench does not read docker contexts",
            remedy="Run: export DOCKER_HOST=$(docker context inspect --format '{{.Endpoints.docker.Host}}')",
        )
    if environ.get("PYTHON_ON_WHALES_DEBUG") == "1":
        raise UnavailableError(
            "PYTHON_ON_WHALES_DEBUG=1 would print the whole environment, including keys",
            remedy="Run: unset PYTHON_ON_WHALES_DEBUG",
        )
