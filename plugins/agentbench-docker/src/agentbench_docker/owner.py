"""Whose containers and networks these are, and what is done about those of the dead."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench_core import Deadline, SandboxError
from agentbench_docker.client import Client, one_line

if TYPE_CHECKING:
    from python_on_whales import Container, DockerClient

OWNER = "agentbench.owner"
"""Label: the scratch directory of the provider that made it; a name, which need not be visible to who reads it."""
KEEPER = "agentbench.keeper"
"""Label of the container that says that an owner lives: the owner's name."""
USER = "agentbench.uid"
ENVIRONMENT = "agentbench.environment"
"""Label of what belongs to a prepared environment: its key."""
PURPOSE = "docker"
"""Names the scratch directories of this sandbox."""
SWEEP_SEC = 120.0
_KEEPER_START_SEC = 60.0
_KEEPER_END_SEC = 10.0
_NEVER_STARTED = "1h"
"""Age, by the engine's clock, after which a keeper that does not run was left by someone killed while starting it."""
_KEEPER_STATES = ("created", "running", "paused", "restarting")
_POLL = 0.1


class Lease:
    """Tells everybody who reaches the engine that a provider lives, wherever its files and processes can be seen.

    The engine itself carries it: the *keeper*, a container whose one process waits for the end of its standard
    input. The provider's process holds the other end, so the keeper ends with it, also by ``kill -9``, and the engine
    removes it. One per provider; everything that a provider owns is made while it holds its lease. Thread-safe.
    """

    def __init__(self, client: Client, owner: Path, user: str) -> None:
        """``owner`` names the provider; ``user`` is who the keeper runs as, as docker wants it."""
        self._client = client
        self._labels = {KEEPER: str(owner), USER: str(os.geteuid())}
        self._user = user
        self._lock = threading.Lock()
        self._keeper: subprocess.Popen[bytes] | None = None

    def hold(self, image: str, deadline: Deadline) -> None:
        """Start a keeper from an image, by its id, unless one runs: an engine that came back has lost it.

        Raises SandboxError, DeadlineExceeded.
        """
        with self._lock:
            if self._keeper is not None and self._keeper.poll() is None:
                return
            self._end()
            self._keeper = self._start(image)
            try:
                _wait(self._keeper, deadline)
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """Let the keeper end. Idempotent."""
        with self._lock:
            self._end()

    def _start(self, image: str) -> subprocess.Popen[bytes]:
        labels = [word for name, value in self._labels.items() for word in ("--label", f"{name}={value}")]
        limits = ["--memory", "64m", "--pids-limit", "8", "--log-driver", "none", "--no-healthcheck"]
        rights = ["--user", self._user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
        run = ["run", "--rm", "--interactive", "--pull", "never", "--network", "none", *labels, *limits, *rights]
        return subprocess.Popen(
            [*self._client.argv(0), *run, "--entrypoint", "/bin/sh", image, "-c", "echo; read -r _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _end(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        with contextlib.suppress(BrokenPipeError), keeper:  # which closes its input, and waits
            try:
                keeper.communicate(timeout=_KEEPER_END_SEC)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(keeper.pid, signal.SIGKILL)


def _wait(keeper: subprocess.Popen[bytes], deadline: Deadline) -> None:
    """Until a keeper has said that it runs."""
    end = time.monotonic() + _KEEPER_START_SEC
    assert keeper.stdout is not None
    while not select.select([keeper.stdout], [], [], _POLL)[0]:
        deadline.check()
        if time.monotonic() > end:
            raise SandboxError("the container that keeps the lease of this run does not start")
    if not keeper.stdout.read(1):
        assert keeper.stderr is not None
        said = one_line(keeper.stderr.read().decode("utf-8", "backslashreplace"))
        raise SandboxError(f"the container that keeps the lease of this run could not be started: {said}")


def labels(place: Path) -> dict[str, str]:
    """What a provider with the scratch directory ``place`` puts on every container and network."""
    return {OWNER: str(place), USER: str(os.geteuid())}


def sweep(client: Client) -> list[str]:
    """Remove containers and networks of this user whose owner holds no lease; says what that was."""
    return client.call(_sweep, Deadline(SWEEP_SEC))


def remove_all_of(client: Client, place: Path) -> None:
    """Remove what a provider that ends still has."""
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException, SandboxError):
        client.call(lambda docker: _remove(docker, f"{OWNER}={place}", lambda owner: True), Deadline(SWEEP_SEC))


def _sweep(docker: DockerClient) -> list[str]:
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException):
        docker.container.prune(filters=[("label", KEEPER), ("until", _NEVER_STARTED)])

    @functools.cache
    def is_dead(owner: str) -> bool:
        # Check the lease after listing the resources: an owner takes the lease before it creates any.
        keepers = docker.container.list(all=True, filters=[("label", f"{KEEPER}={owner}")])
        return not any(_state(keeper) in _KEEPER_STATES for keeper in keepers)

    return _remove(docker, f"{USER}={os.geteuid()}", is_dead)


def _remove(docker: DockerClient, label: str, wanted: Callable[[str], bool]) -> list[str]:
    """Remove containers and networks with that label, if they have an owner that is ``wanted``."""
    from python_on_whales import DockerException

    removed = []
    for container in docker.container.list(all=True, filters=[("label", label)]):
        with contextlib.suppress(DockerException):  # somebody else was faster
            if _owned(container.config.labels, wanted):
                docker.container.remove(container.id, force=True, volumes=True)
                removed.append(f"container {container.id[:12]}")
    for network in docker.network.list(filters=[("label", label)]):
        with contextlib.suppress(DockerException):
            name = network.name
            if _owned(network.labels, wanted):
                docker.network.remove(network.id)
                removed.append(f"network {name}")
    return removed


def _state(container: Container) -> str | None:
    """How the engine calls what it is doing; nothing if it has just gone."""
    from python_on_whales.exceptions import NoSuchContainer

    with contextlib.suppress(NoSuchContainer):
        return container.state.status
    return None


def _owned(found: Mapping[str, str] | None, wanted: Callable[[str], bool]) -> bool:
    owner = (found or {}).get(OWNER, "")
    return bool(owner) and wanted(owner)
