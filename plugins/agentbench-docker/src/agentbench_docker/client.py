"""How the ``docker`` command is started: with an environment of its own, and never without a deadline."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentbench_core import Deadline, SandboxError, UnavailableError

if TYPE_CHECKING:
    from python_on_whales import DockerClient

DEFAULT_HOST = "unix:///var/run/docker.sock"
CALL_SEC = 60.0
"""Longest time of one call of the client that does not build, pull or commit."""

_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SSH_AUTH_SOCK"),
        *("DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
"""What the client needs to reach an engine; keys of model providers are not among it."""

# `timeout` puts the client into a process group of its own: Ctrl-C in a terminal does not reach it.
_SCRIPT = """\
#!/usr/bin/env -S -i /bin/sh
{exports}
seconds=$1
shift
exec timeout -s KILL "$seconds" docker "$@"
"""

T = TypeVar("T")


class Client:
    """Starts ``docker`` through a script of its own, so that no secret stands on a command line.

    The configuration directory is empty: the user's may hold proxies with passwords, which docker would hand to
    every container, and helpers that start programs.
    """

    def __init__(self, environ: Mapping[str, str], place: Path) -> None:
        """``place`` is a directory of ours, which must stay as long as the client is used.

        Raises UnavailableError when there is no client, or the engine is named in a way that is not understood.
        """
        _refuse_what_misleads(environ)
        for program, package in (("docker", "Docker: apt-get install docker.io"), ("timeout", "coreutils")):
            if shutil.which(program, path=environ.get("PATH")) is None:
                raise UnavailableError(
                    f"there is no {program} command on the PATH", remedy=f"Install {package}, for instance."
                )
        self.host = environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._script = place / "docker"
        config = place / "config"
        config.mkdir()
        exports = [f"export {name}={shlex.quote(value)}" for name, value in _variables(environ, config).items()]
        self._script.touch(mode=0o700)
        self._script.write_text(_SCRIPT.format(exports="\n".join(exports)))

    @property
    def local(self) -> bool:
        """Whether the engine is reached through a socket in this machine's file system."""
        return self.host.startswith(("unix://", "npipe://", "fd://"))

    def argv(self, seconds: float) -> list[str]:
        """The first words of a command line of the client, which is killed after so many seconds; 0: never."""
        return [str(self._script), f"{seconds:.3f}"]

    def call(self, work: Callable[[DockerClient], T], deadline: Deadline, *, at_most: float = CALL_SEC) -> T:
        """Do ``work`` with a client whose every call ends within ``at_most`` seconds.

        That may be after the deadline: an engine that hangs must not look like a command that was too slow.

        Raises:
            DeadlineExceeded: the deadline was over before it began.
            SandboxError: the engine did not answer in time, or is gone.
            DockerException: the engine refuses.
        """
        from python_on_whales import ClientNotFoundError, DockerClient, DockerException  # a quarter of a second

        deadline.check()
        try:
            return work(DockerClient(client_call=self.argv(at_most), client_type="docker"))
        except (ClientNotFoundError, PermissionError) as error:
            raise SandboxError(
                f"the docker command cannot be started through {self._script}: {one_line(str(error))}",
                remedy="Set TMPDIR to a directory where programs may be run.",
            ) from None
        except DockerException as error:
            if error.return_code in (137, -9):
                raise SandboxError(
                    f"the Docker engine at {self.host} did not answer within {at_most:.0f} s",
                    remedy="Look at its log, restart dockerd, or point DOCKER_HOST at another engine.",
                ) from None
            if is_gone(error.stderr or ""):
                raise self.gone(error.stderr or "") from None
            raise

    def gone(self, said: str) -> SandboxError:
        """What to raise when no engine answers."""
        return SandboxError(
            f"no Docker engine answers at {self.host}: {one_line(said)}",
            remedy="Install docker and start dockerd, or set DOCKER_HOST to where an engine listens "
            "(docker contexts are not read).",
        )


def is_gone(said: str) -> bool:
    """Whether the client complains that it could not reach the engine."""
    signs = ("Cannot connect to the Docker daemon", "error during connect")
    return any(sign in said for sign in signs)


def one_line(said: str) -> str:
    """What a program said, fit for a message."""
    return " ".join("".join(c if c.isprintable() else " " for c in said).split())[-300:]


def _variables(environ: Mapping[str, str], config: Path) -> dict[str, str]:
    passed = {name: value for name, value in environ.items() if name in _PASSED_ON}
    if passed.get("DOCKER_TLS_VERIFY") or passed.get("DOCKER_TLS"):
        # The client looks for certificates in its configuration directory, which is not the user's here.
        home = environ.get("DOCKER_CONFIG") or str(Path(environ.get("HOME", "/")) / ".docker")
        passed.setdefault("DOCKER_CERT_PATH", home)
    return passed | {"DOCKER_CONFIG": str(config), "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0")}


def _refuse_what_misleads(environ: Mapping[str, str]) -> None:
    name = environ.get("DOCKER_CONTEXT", "")
    if name not in ("", "default") and not environ.get("DOCKER_HOST"):
        raise UnavailableError(
            f"DOCKER_CONTEXT is {name!r}, and AgentBench does not read docker contexts",
            remedy="Type: export DOCKER_HOST=$(docker context inspect --format '{{.Endpoints.docker.Host}}')",
        )
    if environ.get("PYTHON_ON_WHALES_DEBUG") == "1":
        raise UnavailableError(
            "PYTHON_ON_WHALES_DEBUG=1 would print the whole environment, keys included", remedy="Unset it."
        )
